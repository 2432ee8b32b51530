package platform_test

import (
	"fmt"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// TestUsersAreCreatedAtSignIn checks that a sign-in with a verified address of an allowed domain
// creates a user, and that other sign-ins of unknown users are rejected and recorded.
func TestUsersAreCreatedAtSignIn(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		c := january()
		d := deps(t, db)
		d.Now = c.Now
		d.OIDC = identity.OIDC{Issuer: i.URL, ClientID: testkit.IssuerClient, ClientSecret: testkit.IssuerSecret, AutoCreate: []string{"Lab.example"}}
		w := newWorldWith(t, d, c).withAdministrator()
		arrive := func(subject, email string, verified bool) error {
			_, err := w.finish(w.arrive(i, map[string]any{"sub": subject, "email": email, "email_verified": verified}), "good")
			return err
		}
		wantError(t, "another domain", arrive("s1", "kim@example.org", true), fault.Denied)
		wantError(t, "a domain that ends alike", arrive("s2", "kim@not-lab.example", true), fault.Denied)
		wantError(t, "a subdomain", arrive("s3", "kim@a.lab.example", true), fault.Denied)
		wantError(t, "not verified", arrive("s4", "kim@lab.example", false), fault.Denied)
		refused := must(w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Action: "sign-in", Refused: new(true)}))(t).GetEvents()
		if len(refused) != 4 || refused[3].GetAfter().GetFields()["email"].GetStringValue() != "kim@example.org" {
			t.Errorf("rejected strangers are recorded as %v", refused)
		}
		wantError(t, "the allowed domain", arrive("s5", "Kim.O'Neil@LAB.example", true), nil)
		wantError(t, "again", arrive("s5", "Kim.O'Neil@LAB.example", true), nil)
		wantError(t, "a namesake", arrive("s6", "kim.o.neil@lab.example", true), nil)
		list := must(w.client.ListAccounts(w.as("owner"), &platformv1.ListAccountsRequest{Search: "lab.example"}))(t).GetUsers()
		var names []string
		for _, u := range list {
			names = append(names, u.GetUserName())
			if u.GetAdministrator() {
				t.Errorf("%v is an administrator", u)
			}
		}
		if fmt.Sprint(names) != "[kim.o.neil kim.o.neil2]" {
			t.Errorf("created are %q", names)
		}
		wantError(t, "disabling", w.service.DisableUser(t.Context(), "kim.o.neil"), nil)
		wantError(t, "a disabled user", arrive("s5", "Kim.O'Neil@LAB.example", true), fault.Denied)
		wantError(t, "a disabled user as another subject", arrive("s7", "Kim.O'Neil@LAB.example", true), fault.Denied)
	})
}

// TestTokenLifetime checks the default lifetime of access tokens and the operator's maximum.
func TestTokenLifetime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		most    time.Duration
		expires string
		want    time.Duration // 0: never
		kind    error
	}{
		{"default", 0, "", 90 * 24 * time.Hour, nil},
		{"never", 0, "never", 0, nil},
		{"named", 0, "2036-01-31T12:00:00Z", 3652 * 24 * time.Hour, nil},
		{"default with a maximum", 30 * 24 * time.Hour, "", 30 * 24 * time.Hour, nil},
		{"default with a larger maximum", 365 * 24 * time.Hour, "", 90 * 24 * time.Hour, nil},
		{"never with a maximum", 30 * 24 * time.Hour, "never", 0, fault.Invalid},
		{"beyond the maximum", 30 * 24 * time.Hour, "2026-03-03T12:00:00Z", 0, fault.Invalid},
		{"within the maximum", 30 * 24 * time.Hour, "2026-03-02T12:00:00Z", 30 * 24 * time.Hour, nil},
		{"no time", 0, "tomorrow", 0, fault.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := january()
			d := deps(t, testkit.SQLite(t))
			d.Now, d.MaxTokenLife = now.Now, c.most
			s, client := serveWith(t, d)
			must(s.CreateUser(t.Context(), identity.Account{Name: "ada", Email: "ada@example.org"}))(t)
			first := must(s.CreateTokenFor(t.Context(), "ada", identity.NewToken{Name: "first", Expires: now.now.Add(time.Hour)}))(t)
			resp, err := client.CreateToken(bearer(t.Context(), first), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "t", Expires: c.expires}})
			wantError(t, "creating", err, c.kind)
			if err != nil {
				return
			}
			want := now.now.Add(c.want)
			if got := resp.GetToken().GetExpires(); c.want == 0 && got != nil || c.want != 0 && !got.AsTime().Equal(want) {
				t.Errorf("expires %v, want %s", got, want)
			}
		})
	}
}
