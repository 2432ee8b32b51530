package platform_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// signIn signs a program in with a token at a replica.
func (w *world) signIn(at platformClient, token string) *platformv1.IssueTokensResponse {
	w.t.Helper()
	code := w.codeWith(at, token)
	return must(at.IssueTokens(w.t.Context(), &platformv1.IssueTokensRequest{
		GrantType: "authorization_code", Code: code, CodeVerifier: verifier, RedirectUri: redirect, ClientId: "cli",
	}))(w.t)
}

func (w *world) codeWith(at platformClient, token string) string {
	w.t.Helper()
	return must(at.CreateCode(w.t.Context(), codeRequest(token)))(w.t).GetCode()
}

func codeRequest(token string) *platformv1.CreateCodeRequest {
	sum := sha256.Sum256([]byte(verifier))
	return &platformv1.CreateCodeRequest{
		AccessToken: token, ClientId: "cli", RedirectUri: redirect,
		CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:]), CodeChallengeMethod: "S256",
	}
}

func use(at platformClient, token string) error {
	_, err := at.GetUserInfo(bearer(context.Background(), token), &platformv1.GetUserInfoRequest{})
	return err
}

func refresh(at platformClient, token string) error {
	_, err := at.IssueTokens(context.Background(), &platformv1.IssueTokensRequest{GrantType: "refresh_token", RefreshToken: token})
	return err
}

// TestSessionsEndWithTheirToken checks that sessions and codes that began with a token end on
// each replica when the token is deleted.
func TestSessionsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d := deps(t, db)
		c := january()
		d.Now = c.Now
		w := newWorldWith(t, d, c)
		_, other := serveWith(t, d)
		replicas := []platformClient{w.client, other}
		for n, at := range replicas {
			there := replicas[1-n]
			stolen := must(at.CreateToken(w.as("view"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "stolen"}}))(t)
			mine := w.signIn(at, w.tokens["view"])
			theirs := w.signIn(at, stolen.GetAccessKey())
			code := w.codeWith(at, stolen.GetAccessKey())
			_, err := there.CreateCode(t.Context(), codeRequest(theirs.GetAccessToken()))
			wantError(t, "a code for a session", err, fault.Unauthenticated)

			must(at.DeleteToken(w.as("view"), &platformv1.DeleteTokenRequest{TokenId: int64(stolen.GetToken().GetId())}))(t)
			for _, replica := range replicas {
				wantError(t, "the access token of a session", use(replica, theirs.GetAccessToken()), fault.Unauthenticated)
				wantError(t, "its refresh token", refresh(replica, theirs.GetRefreshToken()), fault.Unauthenticated)
				wantError(t, "another's session", use(replica, mine.GetAccessToken()), nil)
			}
			_, err = there.IssueTokens(t.Context(), &platformv1.IssueTokensRequest{
				GrantType: "authorization_code", Code: code, CodeVerifier: verifier, RedirectUri: redirect, ClientId: "cli",
			})
			wantError(t, "an unused code", err, fault.Invalid)
		}
	})
}

// TestSessionsEndWhenTheirTokenExpires also covers a configured token whose secret changes.
func TestSessionsEndWhenTheirTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	short := must(w.service.CreateTokenFor(t.Context(), "view", identity.NewToken{Name: "short", Expires: w.clock.now.Add(30 * time.Minute)}))(t)
	s := w.signIn(w.client, short)
	wantError(t, "while the token is valid", use(w.client, s.GetAccessToken()), nil)
	w.clock.now = w.clock.now.Add(31 * time.Minute)
	wantError(t, "after the token has expired", use(w.client, s.GetAccessToken()), fault.Unauthenticated)
	wantError(t, "refreshed", refresh(w.client, s.GetRefreshToken()), fault.Unauthenticated)
	if list := must(w.client.ListTokens(w.as("view"), &platformv1.ListTokensRequest{}))(t).GetSessions(); len(list) != 0 {
		t.Errorf("the expired session is listed: %v", list)
	}

	w = &world{t: t}
	w.service, w.client = serve(t, testkit.SQLite(t))
	configured := func(digit string) string {
		return b64(`{"tid":1}.` + digit + "123456789abcdef0123456789abcdef01234567")
	}
	admin := func(token string) {
		t.Helper()
		must(w.service.EnsureAdmin(t.Context(), identity.Admin{Email: "admin@example.org", Token: token}))(t)
	}
	admin(configured("0"))
	s = w.signIn(w.client, configured("0"))
	admin(configured("0"))
	wantError(t, "after another start", use(w.client, s.GetAccessToken()), nil)
	admin(configured("1"))
	wantError(t, "after another secret", use(w.client, s.GetAccessToken()), fault.Unauthenticated)
	wantError(t, "refreshed", refresh(w.client, s.GetRefreshToken()), fault.Unauthenticated)
}

// TestListAndDeleteSessions also deletes all tokens and sessions of a user.
func TestListAndDeleteSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	list := func() []*platformv1.SessionRecord {
		return must(w.client.ListTokens(w.as("view"), &platformv1.ListTokensRequest{}))(t).GetSessions()
	}
	first := w.signIn(w.client, w.tokens["view"])
	w.clock.now = w.clock.now.Add(time.Minute)
	second := w.signIn(w.client, w.tokens["view"])
	shown := list()
	if len(shown) != 2 || shown[0].GetClientId() != "cli" || shown[0].GetTokenId().GetValue() == 0 || !shown[0].GetDateCreated().AsTime().After(shown[1].GetDateCreated().AsTime()) {
		t.Fatalf("got sessions %v", shown)
	}
	id := int64(shown[1].GetId())
	_, err := w.client.DeleteToken(w.as("launch"), &platformv1.DeleteTokenRequest{TokenId: id})
	wantError(t, "another's session", err, fault.NotFound)
	must(w.client.DeleteToken(w.as("view"), &platformv1.DeleteTokenRequest{TokenId: id}))(t)
	wantError(t, "a session that was ended", use(w.client, first.GetAccessToken()), fault.Unauthenticated)
	wantError(t, "refreshed", refresh(w.client, first.GetRefreshToken()), fault.Unauthenticated)
	wantError(t, "the other", use(w.client, second.GetAccessToken()), nil)
	code := w.codeWith(w.client, w.tokens["view"])
	must(w.client.DeleteAllTokens(w.as("view"), &platformv1.DeleteAllTokensRequest{}))(t)
	_, err = w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code })
	wantError(t, "an unused code", err, fault.Invalid)
	wantError(t, "after all have ended", use(w.client, second.GetAccessToken()), fault.Unauthenticated)
}

// TestSessionsAreBounded checks the total lifetime of a refreshed session and the number of
// sessions per user.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	s := w.signIn(w.client, w.tokens["view"])
	begun := w.clock.now
	for {
		w.clock.now = w.clock.now.Add(20 * 24 * time.Hour)
		next, err := w.refresh(s.GetRefreshToken())
		if w.clock.now.Sub(begun) >= limits.SessionLife {
			wantError(t, "a refresh after the longest life", err, fault.Unauthenticated)
			break
		}
		s = must(next, err)(t)
	}
	oldest := w.signIn(w.client, w.tokens["view"])
	for range limits.SessionsPerUser {
		w.clock.now = w.clock.now.Add(time.Second)
		w.signIn(w.client, w.tokens["view"])
	}
	wantError(t, "the oldest of too many", use(w.client, oldest.GetAccessToken()), fault.Unauthenticated)
	if n := len(must(w.client.ListTokens(w.as("view"), &platformv1.ListTokensRequest{}))(t).GetSessions()); n != limits.SessionsPerUser {
		t.Errorf("got %d sessions, want %d", n, limits.SessionsPerUser)
	}
}
