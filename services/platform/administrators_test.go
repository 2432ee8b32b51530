package platform_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// TestAdministrators grants and revokes the role, with immediate effect, and checks that the
// last administrator keeps it.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorldAfter(t, db)
		is := func(who string) bool {
			t.Helper()
			return must(w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: w.tokens[who]}))(t).GetAdministrator()
		}
		change := func(by, who string, c *platformv1.AccountChange) error {
			_, err := w.client.UpdateAccount(w.as(by), &platformv1.UpdateAccountRequest{UserId: w.ids[who], Change: c})
			return err
		}
		_, err := w.client.ListAccounts(w.as("boss"), &platformv1.ListAccountsRequest{})
		wantError(t, "a user lists", err, fault.Denied)
		_, err = w.client.CreateAccount(w.as("boss"), &platformv1.CreateAccountRequest{})
		wantError(t, "a user creates", err, fault.Denied)
		wantError(t, "a user", change("boss", "boss", &platformv1.AccountChange{Administrator: new(true)}), fault.Denied)
		if !is("first") || is("boss") {
			t.Fatal("the first user is the only administrator")
		}
		wantError(t, "the last one", change("first", "first", &platformv1.AccountChange{Administrator: new(false)}), fault.Conflict)
		wantError(t, "granting", change("first", "boss", &platformv1.AccountChange{Administrator: new(true)}), nil)
		wantError(t, "a second one grants", change("boss", "view", &platformv1.AccountChange{Administrator: new(true)}), nil)
		wantError(t, "revoking", change("boss", "first", &platformv1.AccountChange{Administrator: new(false)}), nil)
		if is("first") || !is("boss") || !is("view") {
			t.Error("the roles are in the wrong state")
		}
		wantError(t, "one that was revoked", change("first", "first", &platformv1.AccountChange{Administrator: new(true)}), fault.Denied)
		must(w.service.EnsureAdmin(t.Context(), identity.Admin{Email: "admin@example.org"}))(t)
		if is("first") {
			t.Error("a restart grants the role again")
		}
		wantError(t, "disabling another", change("boss", "view", &platformv1.AccountChange{Disabled: new(true)}), nil)
		wantError(t, "the last enabled one", change("boss", "boss", &platformv1.AccountChange{Administrator: new(false)}), fault.Conflict)
		wantError(t, "disabling the last", change("boss", "boss", &platformv1.AccountChange{Disabled: new(true)}), fault.Conflict)
		wantError(t, "deleting the last", w.service.DeleteUser(t.Context(), "u-boss"), fault.Conflict)
		wantError(t, "revoking by command", w.service.SetAdministrator(t.Context(), "u-boss", false), fault.Conflict)
		wantError(t, "granting by command", w.service.SetAdministrator(t.Context(), "u-launch", true), nil)
		wantError(t, "a disabled one", change("boss", "view", &platformv1.AccountChange{Disabled: new(true), Administrator: new(true)}), nil)
		_, err = w.client.DeleteAccount(w.as("launch"), &platformv1.DeleteAccountRequest{UserId: w.ids["view"]})
		wantError(t, "deleting a disabled one", err, nil)
		_, err = w.client.DeleteAccount(w.as("launch"), &platformv1.DeleteAccountRequest{UserId: w.ids["view"]})
		wantError(t, "deleting again", err, fault.NotFound)
		must(w.service.VerifyAudit(t.Context()))(t)
	})
}

// newWorldAfter returns a world whose users are created after the first user, "first".
func newWorldAfter(t *testing.T, db *sqldb.DB) *world {
	t.Helper()
	w := &world{t: t, clock: january(), tokens: map[string]string{}, ids: map[string]int64{}, partOf: map[string]int64{}, memberOf: map[string]int64{}}
	w.service, w.client = serveWith(t, deps(t, db))
	w.tokens["first"] = must(w.service.EnsureAdmin(t.Context(), identity.Admin{Email: "admin@example.org"}))(t)
	w.ids["first"] = identity.AdminID
	w.settle("u-")
	return w
}

// TestAdministratorsRemoveEachOther checks that one of two administrators keeps the role if they
// revoke each other's role concurrently.
func TestAdministratorsRemoveEachOther(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		for range 10 {
			for _, name := range []string{"boss", "owner"} {
				wantError(t, "granting", w.service.SetAdministrator(t.Context(), name, true), nil)
			}
			var refused atomic.Int32
			var all sync.WaitGroup
			for _, name := range []string{"boss", "owner"} {
				all.Go(func() {
					err := w.service.SetAdministrator(t.Context(), name, false)
					if errors.Is(err, fault.Conflict) {
						refused.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if refused.Load() != 1 {
				t.Fatalf("%d of two revocations are rejected", refused.Load())
			}
		}
	})
}

// TestAccountsOfAdministrators lists, creates and disables users.
func TestAccountsOfAdministrators(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db).withAdministrator()
		spec := &platformv1.AccountSpec{UserName: "kim", Email: "kim@example.org", FirstName: "Kim"}
		kim := must(w.client.CreateAccount(w.as("owner"), &platformv1.CreateAccountRequest{User: spec}))(t).GetUser()
		_, err := w.client.CreateAccount(w.as("owner"), &platformv1.CreateAccountRequest{User: spec})
		wantError(t, "twice", err, fault.Conflict)
		list := must(w.client.ListAccounts(w.as("owner"), &platformv1.ListAccountsRequest{Search: "KIM@"}))(t)
		if len(list.GetUsers()) != 1 || list.GetTotalSize() != 1 || list.GetUsers()[0].GetId() != kim.GetId() || list.GetUsers()[0].GetLastUsed() != nil {
			t.Errorf("found %v", list)
		}
		list = must(w.client.ListAccounts(w.as("owner"), &platformv1.ListAccountsRequest{Search: "owner"}))(t)
		if u := list.GetUsers()[0]; u.GetLastUsed() == nil || !u.GetAdministrator() {
			t.Errorf("the administrator is listed as %v", u)
		}
		w.tokens["kim"] = must(w.service.CreateTokenFor(t.Context(), "kim", identity.NewToken{Name: "t", Expires: w.clock.now.AddDate(1, 0, 0)}))(t)
		session := w.signIn(w.client, w.tokens["kim"])
		wantError(t, "before", use(w.client, session.GetAccessToken()), nil)
		off := &platformv1.UpdateAccountRequest{UserId: int64(kim.GetId()), Change: &platformv1.AccountChange{Disabled: new(true)}}
		if u := must(w.client.UpdateAccount(w.as("owner"), off))(t).GetUser(); !u.GetDisabled() {
			t.Errorf("after disabling: %v", u)
		}
		wantError(t, "a disabled user's token", use(w.client, w.tokens["kim"]), fault.Unauthenticated)
		wantError(t, "a disabled user's session", use(w.client, session.GetAccessToken()), fault.Unauthenticated)
		wantError(t, "a disabled user's refresh", refresh(w.client, session.GetRefreshToken()), fault.Unauthenticated)
	})
}
