package platform_test

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/vault"
)

const (
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	redirect = "http://127.0.0.1:8080/back"
)

func (w *world) code(who string) string {
	w.t.Helper()
	return w.codeWith(w.client, w.tokens[who])
}

func (w *world) issue(change func(*platformv1.IssueTokensRequest)) (*platformv1.IssueTokensResponse, error) {
	req := &platformv1.IssueTokensRequest{GrantType: "authorization_code", CodeVerifier: verifier, RedirectUri: redirect, ClientId: "cli"}
	change(req)
	return w.client.IssueTokens(w.t.Context(), req)
}

func (w *world) refresh(token string) (*platformv1.IssueTokensResponse, error) {
	return w.client.IssueTokens(w.t.Context(), &platformv1.IssueTokensRequest{GrantType: "refresh_token", RefreshToken: token})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		use := func(token string) error {
			_, err := w.client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{})
			return err
		}
		code := w.code("view")
		first := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		wantError(t, "an access token", use(first.GetAccessToken()), nil)
		wantError(t, "a refresh token as an access token", use(first.GetRefreshToken()), fault.Unauthenticated)

		w.clock.now = w.clock.now.Add(time.Hour)
		err := use(first.GetAccessToken())
		if e, ok := fault.As(err); !ok || e.Meta["refresh"] != "true" {
			t.Errorf("an expired access token: %v", err)
		}
		second := must(w.refresh(first.GetRefreshToken()))(t)
		wantError(t, "a refreshed token", use(second.GetAccessToken()), nil)
		_, err = w.refresh(first.GetRefreshToken())
		wantError(t, "an old refresh token", err, fault.Unauthenticated)
		_, err = w.refresh(second.GetRefreshToken())
		wantError(t, "the newest, after an old one came", err, fault.Unauthenticated)
		wantError(t, "the access token of the family", use(second.GetAccessToken()), fault.Unauthenticated)

		code = w.code("view")
		third := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		must(w.client.DeleteAllTokens(w.as("view"), &platformv1.DeleteAllTokensRequest{}))(t)
		wantError(t, "after all were revoked", use(third.GetAccessToken()), fault.Unauthenticated)
	})
}

// TestCodeUsedTwice checks that the second use of a code ends the session that it began, on each
// replica, and no other session.
func TestCodeUsedTwice(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		redeem := func(code, verifier string) (*platformv1.IssueTokensResponse, error) {
			return w.issue(func(r *platformv1.IssueTokensRequest) { r.Code, r.CodeVerifier = code, verifier })
		}
		other := w.signIn(w.client, w.tokens["view"])
		for name, thief := range map[string]string{"with its verifier": verifier, "without": ""} {
			code := w.code("view")
			first := must(redeem(code, verifier))(t)
			wantError(t, "the session "+name, w.use(first.GetAccessToken()), nil)
			_, err := redeem(code, thief)
			wantError(t, "the code again "+name, err, fault.Invalid)
			wantError(t, "its session afterwards "+name, w.use(first.GetAccessToken()), fault.Unauthenticated)
			_, err = w.refresh(first.GetRefreshToken())
			wantError(t, "its refresh token afterwards "+name, err, fault.Unauthenticated)
		}
		code := w.code("view")
		_, err := redeem(code, "wrong")
		wantError(t, "a wrong verifier", err, fault.Invalid)
		_, err = redeem(code, verifier)
		wantError(t, "the code that came with a wrong verifier", err, fault.Invalid)
		wantError(t, "another session", w.use(other.GetAccessToken()), nil)
	})
}

// TestCodeUsedConcurrently checks that concurrent uses of a code leave no session.
func TestCodeUsedConcurrently(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		code := w.code("view")
		var all sync.WaitGroup
		tokens := make([]string, 8)
		for n := range tokens {
			all.Go(func() {
				resp, _ := w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }) // at most one succeeds
				tokens[n] = resp.GetAccessToken()
			})
		}
		all.Wait()
		for _, token := range tokens {
			wantError(t, "a session of a code that was used several times", w.use(token), fault.Unauthenticated)
		}
	})
}

func TestSignInRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	for name, change := range map[string]func(*platformv1.IssueTokensRequest){
		"verifier": func(r *platformv1.IssueTokensRequest) { r.CodeVerifier = "x" },
		"redirect": func(r *platformv1.IssueTokensRequest) { r.RedirectUri = "http://localhost/" },
		"client":   func(r *platformv1.IssueTokensRequest) { r.ClientId = "other" },
		"grant":    func(r *platformv1.IssueTokensRequest) { r.GrantType = "password" },
		"late":     func(*platformv1.IssueTokensRequest) { w.clock.now = w.clock.now.Add(2 * time.Minute) },
	} {
		code := w.code("view")
		_, err := w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code; change(r) })
		wantError(t, name, err, fault.Invalid)
	}
	good := &platformv1.CreateCodeRequest{AccessToken: w.tokens["view"], ClientId: "cli", RedirectUri: redirect, CodeChallenge: strings.Repeat("x", 43), CodeChallengeMethod: "S256"}
	for _, uri := range []string{"https://evil.example", "http://127.0.0.1.evil.example", "http://x@localhost", "javascript:alert(1)", "", "http://[::1", "https://page.example/", "https://page.example/login?x", "https://page.example/login/"} {
		good.RedirectUri = uri
		_, err := w.client.CreateCode(t.Context(), good)
		wantError(t, uri, err, fault.Invalid)
	}
	good.RedirectUri = "https://page.example/login"
	must(w.client.CreateCode(t.Context(), good))(t)
	good.RedirectUri = redirect + strings.Repeat("x", 1000)
	_, err := w.client.CreateCode(t.Context(), good)
	wantError(t, "a long redirect", err, fault.Invalid)
	good.RedirectUri, good.ClientId = redirect, ""
	_, err = w.client.CreateCode(t.Context(), good)
	wantError(t, "no client_id", err, fault.Invalid)
	good.ClientId, good.AccessToken = "cli", "nonsense"
	_, err = w.client.CreateCode(t.Context(), good)
	wantError(t, "a wrong token", err, fault.Unauthenticated)
}

func TestForgedTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	code := w.code("view")
	good := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t).GetAccessToken()
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	for name, forged := range map[string]string{
		"no signature": parts[0] + "." + parts[1] + ".", "no algorithm": none + "." + parts[1] + ".", "another's": parts[0] + "." + parts[1] + "x." + parts[2],
		"nothing": "..", "long": strings.Repeat("x", 3000) + "..", "an unknown key": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"x"}`)) + "." + parts[1] + "." + parts[2],
	} {
		_, err := w.client.GetUserInfo(bearer(t.Context(), forged), &platformv1.GetUserInfoRequest{})
		wantError(t, name, err, fault.Unauthenticated)
	}
}

func FuzzPresented(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJ0aWQiOjF9LjAw")
	db := testkit.SQLite(f)
	if err := db.Migrate(f.Context(), "platform", platform.Migrations()); err != nil {
		f.Fatal(err)
	}
	keys, err := vault.Open(filepath.Join(f.TempDir(), "keys"), true)
	if err != nil {
		f.Fatal(err)
	}
	w, err := platform.New(platform.Deps{DB: db, Keys: keys, Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := w.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: s})
		wantError(t, s, err, fault.Unauthenticated)
	})
}
