package platform_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// eachInvited runs a test with a world in which invitations create users, on each database.
func eachInvited(t *testing.T, f func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB)) {
	t.Helper()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		f(t, invitationWorld(t, db, i, "invitations"), i, db)
	})
}

// inviteAs invites an address to the organisation as boss, with a role.
func (w *world) inviteAs(address, role string) *platformv1.Member {
	w.t.Helper()
	m := must(w.invite("boss", address))(w.t)
	must(w.client.UpdateMemberRole(w.as("boss"), &platformv1.UpdateMemberRoleRequest{
		OrgId: w.org, MemberId: int64(m.GetMemberId()), Role: &platformv1.RoleSpec{Role: role},
	}))(w.t)
	return m
}

// remove removes a member from the organisation.
func (w *world) remove(m *platformv1.Member) {
	w.t.Helper()
	must(w.client.DeleteMember(w.as("boss"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: int64(m.GetMemberId())}))(w.t)
}

// waitingFor stores invitations of an address to n organisations, each by its only owner, without
// the limits of calls.
func (w *world) waitingFor(db *sqldb.DB, address string, n int) {
	w.t.Helper()
	for i := range n {
		org := int64(1000 + i)
		must(db.ExecContext(w.t.Context(), `INSERT INTO platform_orgs (id, name, name_key, full_name, description, location, website, created_at) VALUES ($1, $2, $2, '', '', '', '', 1)`, org, fmt.Sprint("o", i)))(w.t)
		must(db.ExecContext(w.t.Context(), `INSERT INTO platform_members (id, org_id, user_id, role, created_at) VALUES ($1, $1, $2, 'owner', 1)`, org, w.ids["boss"]))(w.t)
		must(db.ExecContext(w.t.Context(), `
			INSERT INTO platform_invitations (id, org_id, email, role, inviter_id, invited_by, created_at, expires_at) VALUES ($1, $1, $2, 'member', $3, 'boss', 1, $4)`,
			org, address, w.ids["boss"], sqldb.Micros(w.clock.now.Add(time.Hour))))(w.t)
	}
}

// TestInvitationsOfAnAddressAreLimited checks that others cannot invite an address so often that
// its user cannot sign in.
func TestInvitationsOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		stranger := map[string]any{"sub": "s1", "email": "stranger@example.org"}
		must(w.comeIn(i, stranger))(t)
		w.waitingFor(db, "renamed@example.org", limits.InvitationsPerAddress+10)
		_, err := w.invite("boss", "renamed@example.org")
		wantError(t, "one invitation more", err, fault.Invalid)
		if e, ok := fault.As(err); !ok || e.Code != fault.ObjectLimit || !strings.Contains(e.Public, "invitations of an e-mail address: the limit is 50") {
			t.Errorf("one invitation more: %v", err)
		}
		stranger["email"] = "renamed@example.org"
		for n, want := range []int{limits.InvitationsPerAddress, limits.InvitationsPerAddress + 10} {
			must(w.comeIn(i, stranger))(t)
			if got := strings.Count(w.actions("member.add"), "member.add stranger"); got != want {
				t.Errorf("after %d sign-ins there are %d roles instead of %d", n+1, got, want)
			}
		}
	})
}

// TestInvitationsDoNotPreventSignIn checks that users with an account sign in if their invitations
// cannot be accepted.
func TestInvitationsDoNotPreventSignIn(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		stranger := map[string]any{"sub": "s1", "email": "stranger@example.org"}
		must(w.comeIn(i, stranger))(t)
		must(w.invite("boss", "renamed@example.org"))(t)
		must(db.ExecContext(t.Context(), `DROP TABLE platform_removals`))(t)
		stranger["email"] = "renamed@example.org"
		if _, err := w.comeIn(i, stranger); err != nil {
			t.Error(err)
		}
		if got := w.invitations(); got != "[renamed@example.org lab:member by boss]" {
			t.Errorf("there wait %s", got)
		}
	})
}

// TestRemovedUsersStayRemoved checks that an invitation does not bring back a user who was removed
// after it, whatever its address, and that a newer invitation does.
func TestRemovedUsersStayRemoved(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		stranger := map[string]any{"sub": "s1", "email": "stranger@example.org"}
		must(w.comeIn(i, stranger))(t)
		w.inviteAs("renamed@example.org", "owner")
		must(w.inviteToWorkspace("owner", "renamed@example.org"))(t)
		w.remove(must(w.invite("boss", "stranger"))(t))
		stranger["email"] = "renamed@example.org"
		must(w.comeIn(i, stranger))(t)
		if got := w.rolesOf("stranger@example.org"); got != "" || w.invitations() != "[]" {
			t.Errorf("a removed user has %q; there wait %s", got, w.invitations())
		}
		if got := w.actions("invitation.revoke"); strings.Count(got, "invitation.revoke renamed@example.org") != 2 {
			t.Errorf("recorded are %s", got)
		}
		w.clock.now = w.clock.now.Add(time.Minute)
		must(w.inviteToWorkspace("owner", "renamed@example.org"))(t)
		p := must(w.inviteToWorkspace("owner", "stranger"))(t)
		must(w.client.DeleteParticipant(w.as("owner"), &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId())}))(t)
		must(w.invite("boss", "renamed@example.org"))(t)
		must(w.comeIn(i, stranger))(t)
		if got := w.rolesOf("stranger@example.org"); got != "lab: member" {
			t.Errorf("a removed participant with an invitation to the organisation has %q", got)
		}
		w.clock.now = w.clock.now.Add(limits.InvitationLife)
		wantError(t, "the sweep", w.service.Sweep(t.Context()), nil)
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM platform_removals`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d removals are left, %v", n, err)
		}
	})
}

// TestInvitationsOfTheSameUserEnd checks that adding, removing and deleting a user revokes the
// invitations of the user's address, which can wait since the organisation was full before.
func TestInvitationsOfTheSameUserEnd(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		wait := func(workspace any) {
			t.Helper()
			must(db.ExecContext(t.Context(), `
				INSERT INTO platform_invitations (id, org_id, workspace_id, email, role, inviter_id, invited_by, created_at, expires_at)
				VALUES ($1, $2, $3, 'stranger@example.org', 'owner', $4, 'boss', $5, $6)`,
				time.Now().UnixNano(), w.org, workspace, w.ids["boss"], sqldb.Micros(w.clock.now.Add(time.Hour)), sqldb.Micros(w.clock.now.Add(2*time.Hour))))(t)
		}
		wait(nil)
		m := must(w.invite("boss", "stranger"))(t)
		if got := w.invitations(); got != "[]" {
			t.Errorf("after adding the user wait %s", got)
		}
		wait(nil)
		wait(w.ws)
		w.remove(m)
		if got := w.invitations(); got != "[]" {
			t.Errorf("after removing the user wait %s", got)
		}
		wait(w.ws)
		p := must(w.inviteToWorkspace("boss", "stranger"))(t)
		if got := w.invitations(); got != "[]" {
			t.Errorf("after adding the participant wait %s", got)
		}
		wait(w.ws)
		must(w.client.DeleteParticipant(w.as("owner"), &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId())}))(t)
		wait(nil)
		wantError(t, "deleting", w.service.DeleteUser(t.Context(), "stranger"), nil)
		if got := w.invitations(); got != "[]" {
			t.Errorf("after deleting the user wait %s", got)
		}
		_, err := w.comeIn(i, map[string]any{"sub": "s1", "email": "stranger@example.org"})
		wantError(t, "a deleted user", err, fault.Denied)
	})
}

// TestInvitationsNeedTheInviter checks that an invitation gives no role that the inviter, or the
// user who changed the role, may not grant anymore.
func TestInvitationsNeedTheInviter(t *testing.T) {
	t.Parallel()
	for name, loses := range map[string]func(t *testing.T, w *world){
		"removed": func(t *testing.T, w *world) {
			t.Helper()
			must(w.client.DeleteMember(w.as("boss"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: w.memberOf["admin"]}))(t)
		},
		"demoted": func(t *testing.T, w *world) {
			t.Helper()
			must(w.client.UpdateParticipantRole(w.as("boss"), &platformv1.UpdateParticipantRoleRequest{
				OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["admin"], Role: &platformv1.ParticipantRole{Role: "maintain"},
			}))(t)
			must(w.client.UpdateMemberRole(w.as("boss"), &platformv1.UpdateMemberRoleRequest{OrgId: w.org, MemberId: w.memberOf["admin"], Role: &platformv1.RoleSpec{Role: "member"}}))(t)
		},
		"disabled": func(t *testing.T, w *world) {
			t.Helper()
			wantError(t, "disabling", w.service.DisableUser(t.Context(), "admin"), nil)
		},
		"deleted": func(t *testing.T, w *world) {
			t.Helper()
			wantError(t, "deleting", w.service.DeleteUser(t.Context(), "admin"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, _ *sqldb.DB) {
				must(w.client.UpdateMemberRole(w.as("boss"), &platformv1.UpdateMemberRoleRequest{OrgId: w.org, MemberId: w.memberOf["admin"], Role: &platformv1.RoleSpec{Role: "owner"}}))(t)
				must(w.invite("admin", "kim@example.org"))(t)
				must(w.inviteToWorkspace("admin", "kim@example.org"))(t)
				must(w.inviteToWorkspace("admin", "lee@example.org"))(t)
				kept := must(w.inviteToWorkspace("admin", "max@example.org"))(t)
				must(w.client.UpdateParticipantRole(w.as("boss"), &platformv1.UpdateParticipantRoleRequest{
					OrgId: w.org, Id: w.ws, ParticipantId: int64(kept.GetParticipantId()), Role: &platformv1.ParticipantRole{Role: "admin"},
				}))(t)
				loses(t, w)
				for _, address := range []string{"kim@example.org", "lee@example.org"} {
					_, err := w.comeIn(i, map[string]any{"sub": address, "email": address})
					wantError(t, address, err, fault.Denied)
				}
				if got, err := w.comeIn(i, map[string]any{"sub": "s3", "email": "max@example.org"}); err != nil || got != "bench: admin" {
					t.Errorf("with a role that another user has granted: %q, %v", got, err)
				}
				must(w.client.CreateAccount(w.as("owner"), &platformv1.CreateAccountRequest{User: &platformv1.AccountSpec{UserName: "kim", Email: "kim@example.org"}}))(t)
				if got := w.rolesOf("kim@example.org"); got != "" || w.invitations() != "[lee@example.org bench:launch by admin]" {
					t.Errorf("the user has %q; there wait %s", got, w.invitations())
				}
			})
		})
	}
}

// TestInvitationsAreFoundByWholeAddress checks that a search for a user does not find the
// invitation of another address: tower-cli acts on the first result.
func TestInvitationsAreFoundByWholeAddress(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, _ *testkit.Issuer, _ *sqldb.DB) {
		must(w.invite("boss", "a.stranger@example.org"))(t)
		must(w.inviteToWorkspace("boss", "a.stranger@example.org"))(t)
		for search, want := range map[string]int32{"stranger": 0, "stranger@example.org": 0, "A.Stranger@example.org": 1, "": 9} {
			list := must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org, Search: search}))(t)
			if list.GetTotalSize() != want || len(list.GetMembers()) != int(want) {
				t.Errorf("%q finds %v", search, list)
			}
		}
		list := must(w.client.ListParticipants(w.as("boss"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws, Search: "stranger"}))(t)
		if list.GetTotalSize() != 0 {
			t.Errorf("found are %v", list)
		}
	})
}

// TestKelvinSignInAccounts checks that an account whose address has the kelvin sign is another one,
// on databases that fold it to the letter k, too.
func TestKelvinSignInAccounts(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		must(db.ExecContext(t.Context(), `INSERT INTO platform_users (id, user_name, email, created_at) VALUES (70, 'kelvin', $1, 1), (71, 'elodie', 'Élodie@x.org', 1)`, "\u212aim@example.org"))(t)
		if m, err := w.invite("boss", "kim@example.org"); err != nil || m.GetInvitation() == nil {
			t.Errorf("the address with the letter is added as %v, %v", m, err)
		}
		if m, err := w.invite("boss", "Élodie@X.org"); err != nil || m.GetUserName() != "elodie" {
			t.Errorf("the address of a user in other case is added as %v, %v", m, err)
		}
		if got, err := w.comeIn(i, map[string]any{"sub": "s1", "email": "Kim@example.org"}); err != nil || got != "lab: member" {
			t.Errorf("the invited user has %q, %v", got, err)
		}
		if got := w.actions("user.create"); !strings.Contains(got, "user.create kim") {
			t.Errorf("recorded are %s", got)
		}
	})
}

// TestInvitationsOfSimilarAddresses checks that addresses that can look like another one are not
// invited.
func TestInvitationsOfSimilarAddresses(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, _ *testkit.Issuer, _ *sqldb.DB) {
		for _, address := range []string{"kim\u200b@example.org", "k\u0456m@example.org", "kim@b\u00fccher.example", "\u202ekim@example.org", `"a b"@example.org`} {
			_, err := w.invite("boss", address)
			wantError(t, address, err, fault.Invalid)
			_, err = w.inviteToWorkspace("boss", address)
			wantError(t, address, err, fault.Invalid)
		}
		must(w.invite("boss", "kim@xn--bcher-kva.example"))(t)
	})
}

// TestInvitationsNeedAProvider checks that an unknown address is rejected on a server without a
// sign-in provider, as before.
func TestInvitationsNeedAProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	_, err := w.invite("boss", "kim@example.org")
	wantError(t, "an unknown address", err, fault.Invalid)
	if !strings.Contains(fmt.Sprint(err), "No such user") {
		t.Error(err)
	}
	if m, err := w.invite("boss", "STRANGER@example.org"); err != nil || m.GetUserName() != "stranger" {
		t.Errorf("%v, %v", m, err)
	}
}

// TestInvitationsWhileUsersAreCreated invites addresses while users with them are created: each
// must become a member, and no invitation may stay.
func TestInvitationsWhileUsersAreCreated(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, _ *testkit.Issuer, _ *sqldb.DB) {
		var wg sync.WaitGroup
		const n = 20
		for i := range n {
			address := fmt.Sprintf("u%d@example.org", i)
			wg.Go(func() {
				if _, err := w.invite("boss", address); err != nil && !errors.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if _, err := w.service.CreateUser(context.WithoutCancel(t.Context()), identity.Account{Name: fmt.Sprint("u", i), Email: address}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range n {
			if got := w.rolesOf(fmt.Sprintf("u%d@example.org", i)); got != "lab: member" {
				t.Errorf("user %d has %q", i, got)
			}
		}
		if got := w.invitations(); got != "[]" {
			t.Errorf("there wait %s", got)
		}
	})
}

// TestInvitationsAtTheLimit checks that concurrent invitations do not exceed the limit, that expired
// ones do not count, and that the admins of a workspace cannot use up those of the organisation.
func TestInvitationsAtTheLimit(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, _ *testkit.Issuer, db *sqldb.DB) {
		add := func(first, n int, workspace any, expires time.Time) {
			t.Helper()
			must(db.ExecContext(t.Context(), `
				INSERT INTO platform_invitations (id, org_id, workspace_id, email, role, inviter_id, invited_by, created_at, expires_at)
				WITH RECURSIVE n(i) AS (SELECT CAST($1 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < $2)
				SELECT i, CAST($3 AS bigint), CAST($4 AS bigint), 'u' || CAST(i AS text) || '@example.org', 'launch', CAST($5 AS bigint), 'boss', 1, CAST($6 AS bigint) FROM n`,
				first, first+n-1, w.org, workspace, w.ids["boss"], sqldb.Micros(expires)))(t)
		}
		later := w.clock.now.Add(time.Hour)
		add(1, limits.InvitationsPerWorkspace, w.ws, later)
		_, err := w.inviteToWorkspace("admin", "kim@example.org")
		wantError(t, "one invitation more to a workspace", err, fault.Invalid)
		if e, ok := fault.As(err); !ok || e.Code != fault.ObjectLimit || !strings.Contains(e.Public, "invitations to a workspace: the limit is 250") {
			t.Errorf("one invitation more to a workspace: %v", err)
		}
		add(5000, limits.InvitationsPerOrganization, nil, w.clock.now)
		add(1000, limits.InvitationsPerOrganization-limits.InvitationsPerWorkspace-3, nil, later)
		var wg sync.WaitGroup
		for i := range 9 {
			wg.Go(func() { _, _ = w.invite("boss", fmt.Sprintf("kim%d@example.org", i)) })
		}
		wg.Wait()
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM platform_invitations WHERE org_id = $1 AND expires_at > $2`, w.org, sqldb.Micros(w.clock.now)).Scan(&n); err != nil || n != limits.InvitationsPerOrganization {
			t.Errorf("there are %d invitations, %v", n, err)
		}
	})
}

// TestInvitationsOfGroupMembers checks that an invitation makes the role that a group has granted
// one of a user, and never lowers it.
func TestInvitationsOfGroupMembers(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, _ *sqldb.DB) {
		stranger := map[string]any{"sub": "s1", "email": "stranger@example.org", "groups": []string{"staff"}}
		if got, err := w.comeIn(i, stranger); err != nil || got != "lab: member, bench: view" {
			t.Fatalf("with a group: %q, %v", got, err)
		}
		w.inviteAs("renamed@example.org", "owner")
		must(w.inviteToWorkspace("owner", "renamed@example.org"))(t)
		stranger["email"], stranger["groups"] = "renamed@example.org", []string{}
		must(w.comeIn(i, stranger))(t)
		if got := w.rolesOf("stranger@example.org"); got != "lab: owner, bench: launch" {
			t.Errorf("the user has %q", got)
		}
		if got := w.actions("member.role") + w.actions("participant.role"); !strings.Contains(got, "member.role stranger") || !strings.Contains(got, "participant.role stranger") {
			t.Errorf("recorded are %s", got)
		}
	})
}

// TestInvitationsToFullOrganizations checks that an invitation to a full organisation is accepted
// later, that the rejected sign-in reports the reason, and that members do not keep invitations.
func TestInvitationsToFullOrganizations(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, db *sqldb.DB) {
		member := map[string]any{"sub": "s1", "email": "member@example.org"}
		must(w.comeIn(i, member))(t)
		must(w.invite("boss", "kim@example.org"))(t)
		must(w.invite("boss", "member2@example.org"))(t)
		const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT 100000 + i, `
		must(db.ExecContext(t.Context(), `INSERT INTO platform_users (id, user_name, email, created_at) `+numbers+`'x' || CAST(i AS text), 'x' || CAST(i AS text), 1 FROM n`, limits.MembersPerOrganization-8))(t)
		must(db.ExecContext(t.Context(), `INSERT INTO platform_members (id, org_id, user_id, role, created_at) `+numbers+`CAST($2 AS bigint), 100000 + i, 'member', 1 FROM n`, limits.MembersPerOrganization-8, w.org))(t)
		_, err := w.comeIn(i, map[string]any{"sub": "s2", "email": "kim@example.org"})
		wantError(t, "an invitation to a full organisation", err, fault.Denied)
		if !strings.Contains(fmt.Sprint(err), "has as many users as are allowed") {
			t.Error(err)
		}
		member["email"] = "member2@example.org"
		must(w.comeIn(i, member))(t)
		if got := w.actions("invitation.accept"); !strings.Contains(got, "invitation.accept member2@example.org") {
			t.Errorf("recorded are %s", got)
		}
		w.remove(must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org, Search: "x17"}))(t).GetMembers()[0])
		if got, err := w.comeIn(i, map[string]any{"sub": "s2", "email": "kim@example.org"}); err != nil || got != "lab: member" {
			t.Errorf("below the limit: %q, %v", got, err)
		}
	})
}

// TestInvitationsOfADomain checks that an entry for a domain creates users of this domain only, and
// that the names of entries are no domains.
func TestInvitationsOfADomain(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "invitations@example.org", "groups", "invitations@Lab.example")
		for _, address := range []string{"kim@example.org", "kim@lab.example", "kim@evil.example", "kim@example.org.evil.example"} {
			must(w.invite("boss", address))(t)
		}
		for address, want := range map[string]error{
			"kim@example.org": nil, "kim@LAB.example": nil, "kim@evil.example": fault.Denied, "kim@example.org.evil.example": fault.Denied,
			"kim@groups": fault.Denied, "kim@invitations": fault.Denied, "lee@example.org": fault.Denied,
		} {
			_, err := w.comeIn(i, map[string]any{"sub": address, "email": address})
			wantError(t, address, err, want)
		}
	})
}

// TestInvitationsInOrder checks the audit trail: an invitation expires before it is renewed, an
// acceptance has the role that the user has then, and deletions record the invitations.
func TestInvitationsInOrder(t *testing.T) {
	t.Parallel()
	eachInvited(t, func(t *testing.T, w *world, i *testkit.Issuer, _ *sqldb.DB) {
		must(w.invite("boss", "kim@example.org"))(t)
		w.clock.now = w.clock.now.Add(limits.InvitationLife)
		must(w.invite("boss", "kim@example.org"))(t)
		if got := w.actions("invitation.*"); got != "[boss invitation.create kim@example.org slipwayd invitation.expire kim@example.org boss invitation.create kim@example.org]" {
			t.Errorf("recorded are %s", got)
		}
		view := map[string]any{"sub": "s1", "email": "view@example.org"}
		must(w.comeIn(i, view))(t)
		must(w.inviteToWorkspace("boss", "view2@example.org"))(t)
		view["email"] = "view2@example.org"
		must(w.comeIn(i, view))(t)
		events := must(w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Action: "invitation.accept"}))(t).GetEvents()
		if len(events) != 1 || !strings.Contains(strings.ReplaceAll(fmt.Sprint(events[0].GetAfter()), " ", ""), "view") || events[0].GetSubject() != "view2@example.org" {
			t.Errorf("recorded are %v", events)
		}
		o := must(w.client.CreateOrganization(w.as("boss"), &platformv1.CreateOrganizationRequest{
			Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new("short")}},
		}))(t)
		at := int64(o.GetOrganization().GetOrgId())
		must(w.client.AddMember(w.as("boss"), &platformv1.AddMemberRequest{OrgId: at, Member: &platformv1.MemberSpec{User: "lee@example.org"}}))(t)
		must(w.client.DeleteOrganization(w.as("boss"), &platformv1.DeleteOrganizationRequest{OrgId: at}))(t)
		if got := w.actions("invitation.revoke"); got != "[boss invitation.revoke lee@example.org]" {
			t.Errorf("recorded are %s", got)
		}
	})
}
