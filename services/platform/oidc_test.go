package platform_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// oidcWorld returns a platform with a sign-in provider.
func oidcWorld(t *testing.T, db *sqldb.DB, i *testkit.Issuer) *world {
	t.Helper()
	c := january()
	d := deps(t, db)
	d.Now, d.OIDC = c.Now, identity.OIDC{Issuer: i.URL, ClientID: testkit.IssuerClient, ClientSecret: testkit.IssuerSecret}
	return newWorldWith(t, d, c)
}

func program() *platformv1.Program {
	sum := sha256.Sum256([]byte(verifier))
	return &platformv1.Program{
		ClientId: "cli", RedirectUri: redirect, CodeChallenge: base64.RawURLEncoding.EncodeToString(sum[:]), CodeChallengeMethod: "S256",
	}
}

// arrive begins a sign-in for a program and returns its state. claims override those of the ID
// token that the provider will issue.
func (w *world) arrive(i *testkit.Issuer, claims map[string]any) string {
	w.t.Helper()
	return w.arriveFor(i, program(), claims)
}

// arriveFor is arrive for a given program; nil is for a user who enters the code of a device.
func (w *world) arriveFor(i *testkit.Issuer, p *platformv1.Program, claims map[string]any) string {
	w.t.Helper()
	begun := must(w.client.BeginSignIn(w.t.Context(), &platformv1.BeginSignInRequest{Program: p, State: "the program's"}))(w.t)
	to := must(url.Parse(begun.GetUrl()))(w.t)
	q := to.Query()
	if !strings.HasPrefix(begun.GetUrl(), i.URL+"/auth?") || q.Get("state") != begun.GetState() || q.Get("redirect_uri") != endpoint+"/oauth/callback" || q.Get("code_challenge_method") != "S256" {
		w.t.Errorf("sent to %s", begun.GetUrl())
	}
	i.Challenge = q.Get("code_challenge")
	i.Claims = map[string]any{
		"iss": i.URL, "aud": "slipway", "sub": "ada", "nonce": q.Get("nonce"), "iat": w.clock.now.Unix(), "exp": w.clock.now.Add(time.Hour).Unix(),
		"email": "View@example.org", "email_verified": true,
	}
	for k, v := range claims {
		i.Claims[k] = v
	}
	return begun.GetState()
}

// finish finishes a sign-in and consents to the program.
func (w *world) finish(state, code string) (string, error) {
	resp, err := w.client.FinishSignIn(w.t.Context(), &platformv1.FinishSignInRequest{State: state, Code: code})
	if err != nil {
		return "", err
	}
	return w.grant(resp.GetConsent())
}

func (w *world) grant(consent string) (string, error) {
	resp, err := w.client.GrantConsent(w.t.Context(), &platformv1.GrantConsentRequest{Consent: consent})
	return resp.GetRedirectUri(), err
}

func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := oidcWorld(t, db, i)
		for _, claims := range []map[string]any{nil, {"email": "another@example.org"}} { // the second time the subject is known
			back := must(url.Parse(must(w.finish(w.arrive(i, claims), "good"))(t)))(t)
			if back.Query().Get("state") != "the program's" || !strings.HasPrefix(back.String(), redirect) {
				t.Errorf("sent back to %s", back)
			}
			issued := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = back.Query().Get("code") }))(t)
			who := must(w.client.GetUserInfo(bearer(t.Context(), issued.GetAccessToken()), &platformv1.GetUserInfoRequest{}))(t)
			if who.GetUser().GetUserName() != "view" {
				t.Errorf("signed in as %v", who)
			}
		}
	})
}

func TestSignInAtAProviderIsRefused(t *testing.T) {
	t.Parallel()
	i := testkit.NewIssuer(t)
	w := oidcWorld(t, testkit.SQLite(t), i)
	for name, c := range map[string]struct {
		claims map[string]any
		code   string
		kind   error
	}{
		"a wrong code":           {nil, "bad", fault.Denied},
		"an unverified address":  {map[string]any{"email_verified": false}, "good", fault.Denied},
		"no address":             {map[string]any{"email": ""}, "good", fault.Denied},
		"an unknown address":     {map[string]any{"email": "nobody@example.org"}, "good", fault.Denied},
		"another's nonce":        {map[string]any{"nonce": "x"}, "good", fault.Denied},
		"another audience":       {map[string]any{"aud": "other"}, "good", fault.Denied},
		"another party":          {map[string]any{"azp": "other"}, "good", fault.Denied},
		"audiences, other party": {map[string]any{"aud": []string{"other", "slipway"}, "azp": "other"}, "good", fault.Denied},
		"audiences, no party":    {map[string]any{"aud": []string{"other", "slipway"}}, "good", fault.Denied},
		"of another issuer":      {map[string]any{"iss": "https://evil.example"}, "good", fault.Denied},
		"expired":                {map[string]any{"exp": w.clock.now.Add(-time.Hour).Unix()}, "good", fault.Denied},
	} {
		_, err := w.finish(w.arrive(i, c.claims), c.code)
		wantError(t, name, err, c.kind)
	}
	state := w.arrive(i, map[string]any{"aud": []string{"other", "slipway"}, "azp": "slipway"})
	must(w.finish(state, "good"))(t)
	_, err := w.finish(state, "good")
	wantError(t, "a sign-in twice", err, fault.Invalid)
	_, err = w.finish("", "good")
	wantError(t, "no sign-in", err, fault.Invalid)
	state = w.arrive(i, nil)
	w.clock.now = w.clock.now.Add(10 * time.Minute)
	_, err = w.finish(state, "good")
	wantError(t, "a sign-in that took too long", err, fault.Invalid)
	state = w.arrive(i, nil)
	i.Down = true
	_, err = w.finish(state, "good")
	wantError(t, "a provider that is away", err, fault.Unavailable)
	wrong := program()
	wrong.RedirectUri = "https://evil.example"
	_, err = w.client.BeginSignIn(t.Context(), &platformv1.BeginSignInRequest{Program: wrong})
	wantError(t, "a program elsewhere", err, fault.Invalid)

	cold := oidcWorld(t, testkit.SQLite(t), i)
	_, err = cold.client.BeginSignIn(t.Context(), &platformv1.BeginSignInRequest{Program: program()})
	wantError(t, "a provider that is away from the start", err, fault.Unavailable)
	i.Down = false
	must(cold.client.BeginSignIn(t.Context(), &platformv1.BeginSignInRequest{Program: program()}))(t)
	_, err = newWorld(t, testkit.SQLite(t)).client.BeginSignIn(t.Context(), &platformv1.BeginSignInRequest{Program: program()})
	wantError(t, "no provider", err, fault.Unsupported)
}

// TestRecycledAddress checks that a new subject with an old user's e-mail address does not get
// the user's account until an operator unlinks it.
func TestRecycledAddress(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := oidcWorld(t, db, i)
		signIn := func(subject string) (session string, err error) {
			back, err := w.finish(w.arrive(i, map[string]any{"sub": subject}), "good")
			if err != nil {
				return "", err
			}
			code := must(url.Parse(back))(t).Query().Get("code")
			return must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t).GetAccessToken(), nil
		}
		first := must(signIn("ada"))(t)
		_, err := signIn("grace")
		wantError(t, "the next owner of the address", err, fault.Denied)
		_, err = signIn("ada")
		wantError(t, "the first owner", err, nil)

		wantError(t, "unlinking", w.service.UnlinkUser(t.Context(), "view"), nil)
		wantError(t, "a session of the first owner", w.use(first), fault.Unauthenticated)
		wantError(t, "the user's access token", w.use(w.tokens["view"]), nil)
		_, err = signIn("grace")
		wantError(t, "the next owner after unlinking", err, nil)
		_, err = signIn("ada")
		wantError(t, "the first owner after unlinking", err, fault.Denied)
	})
}

// TestAddressesThatLookAlike checks that only the case of ASCII letters is ignored when an
// e-mail address is looked up.
func TestAddressesThatLookAlike(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := oidcWorld(t, db, i)
		must(w.service.CreateUser(t.Context(), identity.Account{Name: "kim", Email: "kim@example.org"}))(t)
		_, err := w.finish(w.arrive(i, map[string]any{"sub": "m", "email": "\u212aim@example.org"}), "good") // the kelvin sign
		wantError(t, "an address that folds to another", err, fault.Denied)
		_, err = w.service.CreateUser(t.Context(), identity.Account{Name: "kim2", Email: "Kim@example.org"})
		wantError(t, "a user whose address differs in case", err, fault.Conflict)
		_, err = w.finish(w.arrive(i, map[string]any{"sub": "k", "email": "KIM@example.org"}), "good")
		wantError(t, "the address in capitals", err, nil)
	})
}

// TestSignInsOfOneClient checks the limit for sign-ins per client.
func TestSignInsOfOneClient(t *testing.T) {
	t.Parallel()
	i := testkit.NewIssuer(t)
	c, d := january(), deps(t, testkit.SQLite(t))
	d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	d.Now, d.OIDC = c.Now, identity.OIDC{Issuer: i.URL, ClientID: testkit.IssuerClient, ClientSecret: testkit.IssuerSecret}
	w := newWorldWith(t, d, c)
	begin := func(ip string) error {
		ctx := rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.MustParseAddr(ip)})
		_, err := w.client.BeginSignIn(ctx, &platformv1.BeginSignInRequest{Program: program()})
		return err
	}
	for n := range limits.SignIns {
		if err := begin("192.0.2.1"); err != nil {
			t.Fatalf("sign-in %d: %v", n, err)
		}
	}
	wantError(t, "one more", begin("192.0.2.1"), fault.Exhausted)
	wantError(t, "another client", begin("192.0.2.2"), nil)
}
