package platform_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// TestConsent checks that a program on the user's machine gets no code before the user has
// consented, that a consent works once, and that it expires after ten minutes.
func TestConsent(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := oidcWorld(t, db, i)
		arrive := func() *platformv1.FinishSignInResponse {
			return must(w.client.FinishSignIn(t.Context(), &platformv1.FinishSignInRequest{State: w.arrive(i, nil), Code: "good"}))(t)
		}
		asked := arrive()
		if p := asked.GetProgram(); asked.GetRedirectUri() != "" || asked.GetUserName() != "view" || p.GetClientId() != "cli" || p.GetRedirectUri() != redirect {
			t.Fatalf("before the user was asked: %v", asked)
		}
		_, err := w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = asked.GetConsent() })
		wantError(t, "the question as a code", err, fault.Invalid)
		_, err = w.issue(func(r *platformv1.IssueTokensRequest) {
			r.GrantType, r.DeviceCode = identity.DeviceGrant, asked.GetConsent()
		})
		wantError(t, "the question as a device code", err, fault.Invalid)
		_, err = w.client.DescribeDevice(t.Context(), &platformv1.DescribeDeviceRequest{UserCode: w.device().GetUserCode(), Consent: asked.GetConsent()})
		wantError(t, "the question as a sign-in", err, fault.Unauthenticated)

		back := must(url.Parse(must(w.grant(asked.GetConsent()))(t)))(t)
		code := back.Query().Get("code")
		if !strings.HasPrefix(back.String(), redirect+"?") || back.Query().Get("state") != "the program's" || code == asked.GetConsent() {
			t.Errorf("sent back to %s", back)
		}
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a second yes", err, fault.Denied)
		_, err = w.grant(code)
		wantError(t, "the code as a yes", err, fault.Denied)
		issued := must(w.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		wantError(t, "the session", w.use(issued.GetAccessToken()), nil)

		asked = arrive()
		w.clock.now = w.clock.now.Add(10 * time.Minute)
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a late yes", err, fault.Denied)
		asked = arrive()
		must(w.client.DeleteAllTokens(w.as("view"), &platformv1.DeleteAllTokensRequest{}))(t)
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a yes after all was revoked", err, fault.Denied)
		asked = arrive()
		wantError(t, "disabling", w.service.DisableUser(t.Context(), "view"), nil)
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a disabled user's yes", err, fault.Denied)
	})
}

// TestOwnPageNeedsNoConsent checks that the page of this service gets its code immediately. No
// other program receives requests at its address.
func TestOwnPageNeedsNoConsent(t *testing.T) {
	t.Parallel()
	i := testkit.NewIssuer(t)
	w := oidcWorld(t, testkit.SQLite(t), i)
	page := program()
	page.RedirectUri = "https://page.example/login"
	resp := must(w.client.FinishSignIn(t.Context(), &platformv1.FinishSignInRequest{State: w.arriveFor(i, page, nil), Code: "good"}))(t)
	if !strings.HasPrefix(resp.GetRedirectUri(), page.GetRedirectUri()+"?code=") || resp.GetConsent() != "" || resp.GetProgram() != nil {
		t.Errorf("the page is sent %v", resp)
	}
}

// TestConsentToADevice checks that a user who enters a code sees the program's name, and that the
// program gets tokens only after the user has consented.
func TestConsentToADevice(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		d := w.device()
		describe := func(who string) *platformv1.DescribeDeviceResponse {
			return must(w.client.DescribeDevice(t.Context(), &platformv1.DescribeDeviceRequest{UserCode: d.GetUserCode(), AccessToken: w.tokens[who]}))(t)
		}
		asked, another := describe("view"), describe("launch")
		if asked.GetClientId() != "cli" || asked.GetUserName() != "view" || asked.GetConsent() == another.GetConsent() {
			t.Fatalf("asked %v", asked)
		}
		if _, told, _ := w.poll(d, 0); told != "authorization_pending" {
			t.Errorf("before the user has consented: %q", told)
		}
		if to, err := w.grant(asked.GetConsent()); err != nil || to != "" {
			t.Errorf("consent: %q, %v", to, err)
		}
		_, err := w.grant(asked.GetConsent())
		wantError(t, "a second yes", err, fault.Denied)
		_, err = w.grant(another.GetConsent())
		wantError(t, "another user's yes", err, fault.Denied)
		token, _, err := w.poll(d, 0)
		wantError(t, "the tokens", err, nil)
		who := must(w.client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{}))(t)
		if who.GetUser().GetUserName() != "view" {
			t.Errorf("signed in as %v", who)
		}

		d = w.device()
		asked = describe("launch")
		must(w.client.DeleteAllTokens(w.as("launch"), &platformv1.DeleteAllTokensRequest{}))(t)
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a yes after all was revoked", err, fault.Denied)
		d = w.device()
		asked = describe("owner")
		w.clock.now = w.clock.now.Add(10 * time.Minute)
		_, err = w.grant(asked.GetConsent())
		wantError(t, "a late yes", err, fault.Denied)
	})
}
