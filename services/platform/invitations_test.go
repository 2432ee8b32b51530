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
	"slipway.dev/services/platform/orgs"
)

// invitationWorld returns a world with a sign-in provider and an administrator.
func invitationWorld(t *testing.T, db *sqldb.DB, i *testkit.Issuer, autoCreate ...string) *world {
	t.Helper()
	c := january()
	d := deps(t, db)
	d.Now, d.OIDC = c.Now, identity.OIDC{
		Issuer: i.URL, ClientID: testkit.IssuerClient, ClientSecret: testkit.IssuerSecret, AutoCreate: autoCreate, GroupsClaim: "groups",
	}
	d.GroupRoles = must(orgs.ParseGroupRoles([]string{"staff=lab", "staff=lab/bench:view"}))(t)
	return newWorldWith(t, d, c).withAdministrator()
}

// invite adds an address to the organisation.
func (w *world) invite(as, address string) (*platformv1.Member, error) {
	w.t.Helper()
	resp, err := w.client.AddMember(w.as(as), &platformv1.AddMemberRequest{OrgId: w.org, Member: &platformv1.MemberSpec{User: address}})
	return resp.GetMember(), err
}

// inviteToWorkspace adds an address to the workspace.
func (w *world) inviteToWorkspace(as, address string) (*platformv1.Participant, error) {
	w.t.Helper()
	resp, err := w.client.AddParticipant(w.as(as), &platformv1.AddParticipantRequest{
		OrgId: w.org, Id: w.ws, Participant: &platformv1.ParticipantSpec{UserNameOrEmail: address},
	})
	return resp.GetParticipant(), err
}

// setInvitedRoles sets the roles of invitations to the organisation and to the workspace.
func (w *world) setInvitedRoles(m *platformv1.Member, orgRole string, p *platformv1.Participant, role string) {
	w.t.Helper()
	must(w.client.UpdateMemberRole(w.as("boss"), &platformv1.UpdateMemberRoleRequest{
		OrgId: w.org, MemberId: int64(m.GetMemberId()), Role: &platformv1.RoleSpec{Role: orgRole},
	}))(w.t)
	must(w.client.UpdateParticipantRole(w.as("owner"), &platformv1.UpdateParticipantRoleRequest{
		OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId()), Role: &platformv1.ParticipantRole{Role: role},
	}))(w.t)
}

// invitations describes the invitations in the lists of members and participants.
func (w *world) invitations() string {
	w.t.Helper()
	var out []string
	for _, m := range must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org}))(w.t).GetMembers() {
		if m.GetInvitation() != nil {
			out = append(out, fmt.Sprintf("%s lab:%s by %s", m.GetEmail(), m.GetRole(), m.GetInvitation().GetInvitedBy()))
		}
	}
	for _, p := range must(w.client.ListParticipants(w.as("owner"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws}))(w.t).GetParticipants() {
		if p.GetInvitation() != nil {
			out = append(out, fmt.Sprintf("%s bench:%s by %s", p.GetEmail(), p.GetWspRole(), p.GetInvitation().GetInvitedBy()))
		}
	}
	return fmt.Sprint(out)
}

// actions returns the audit events of the actions with a pattern, oldest first.
func (w *world) actions(pattern string) string {
	w.t.Helper()
	var out []string
	for _, e := range must(w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Action: pattern}))(w.t).GetEvents() {
		out = append([]string{fmt.Sprintf("%s %s %s", e.GetActor(), e.GetAction(), e.GetSubject())}, out...)
	}
	return fmt.Sprint(out)
}

// TestInvitations checks that a verified address gets the roles of its invitations at the first
// sign-in, that no other address does, and that the account needs a setting.
func TestInvitations(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "invitations")
		m := must(w.invite("boss", "Kim.New@Example.ORG"))(t)
		want := w.clock.now.Add(limits.InvitationLife)
		if m.GetEmail() != "kim.new@example.org" || m.GetUserName() != m.GetEmail() || m.GetRole() != "member" || m.GetUserId() != 0 || m.GetInvitation().GetInvitedBy() != "boss" || !m.GetInvitation().GetExpires().AsTime().Equal(want) {
			t.Errorf("invited %v", m)
		}
		p := must(w.inviteToWorkspace("admin", "kim.new@example.org"))(t)
		if p.GetEmail() != "kim.new@example.org" || p.GetWspRole() != "launch" || p.GetType() != "MEMBER" || p.GetMemberId().GetValue() != m.GetMemberId() || p.GetInvitation() == nil {
			t.Errorf("invited %v", p)
		}
		_, err := w.invite("boss", "kim.new@EXAMPLE.org")
		wantError(t, "a second invitation", err, fault.Conflict)
		w.setInvitedRoles(m, "owner", p, "maintain")
		if got := w.invitations(); got != "[kim.new@example.org lab:owner by boss kim.new@example.org bench:maintain by owner]" {
			t.Errorf("listed are %s", got)
		}
		_, err = w.comeIn(i, map[string]any{"sub": "s1", "email": "kimnew@example.org"})
		wantError(t, "an address without the dot", err, fault.Denied)
		_, err = w.comeIn(i, map[string]any{"sub": "s2", "email": "\u212aim.new@example.org"})
		wantError(t, "an address with the kelvin sign", err, fault.Denied)
		_, err = w.comeIn(i, map[string]any{"sub": "s3", "email": "kim.new@example.org", "email_verified": false})
		wantError(t, "an unverified address", err, fault.Denied)
		if got, err := w.comeIn(i, map[string]any{"sub": "s4", "email": "KIM.new@example.org"}); err != nil || got != "lab: owner, bench: maintain" {
			t.Errorf("the invited user has %q, %v", got, err)
		}
		if got := w.invitations(); got != "[]" {
			t.Errorf("after the sign-in wait %s", got)
		}
		by := "oidc:" + i.URL
		const a = "kim.new@example.org"
		if got, want := w.actions("invitation.*"), fmt.Sprintf("[boss invitation.create %s admin invitation.create %s boss invitation.role %s owner invitation.role %s %s invitation.accept %s %s invitation.accept %s]", a, a, a, a, by, a, by, a); got != want {
			t.Errorf("recorded are %s, want %s", got, want)
		}
		_, err = w.invite("boss", "KIM.NEW@example.org")
		wantError(t, "an account with the address is a member", err, fault.Conflict)
	})
}

// TestInvitationsAloneCreateNoUser checks that an invited address is rejected without the setting,
// and gets its roles when an administrator creates the user or a group does.
func TestInvitationsAloneCreateNoUser(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "groups")
		for _, address := range []string{"kim@example.org", "lee@example.org"} {
			must(w.invite("boss", address))(t)
			must(w.inviteToWorkspace("admin", address))(t)
		}
		_, err := w.comeIn(i, map[string]any{"sub": "s1", "email": "kim@example.org"})
		wantError(t, "an invited address", err, fault.Denied)
		must(w.client.CreateAccount(w.as("owner"), &platformv1.CreateAccountRequest{User: &platformv1.AccountSpec{UserName: "kim", Email: "Kim@example.org"}}))(t)
		if got := w.rolesOf("Kim@example.org"); got != "lab: member, bench: launch" {
			t.Errorf("a user of an administrator has %q", got)
		}
		lee := map[string]any{"sub": "s2", "email": "lee@example.org", "groups": []string{"staff"}}
		if got, err := w.comeIn(i, lee); err != nil || got != "lab: member, bench: launch" {
			t.Errorf("with a group: %q, %v", got, err)
		}
		lee["groups"] = []string{}
		if got, err := w.comeIn(i, lee); err != nil || got != "lab: member, bench: launch" {
			t.Errorf("roles of an invitation are revoked with a group: %q, %v", got, err)
		}
	})
}

// TestInvitationsOfUsers checks invitations of the verified address of a user whose account has
// another one, of disabled users, and of users who have a role already.
func TestInvitationsOfUsers(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i)
		stranger := map[string]any{"sub": "s1", "email": "stranger@example.org"}
		must(w.comeIn(i, stranger))(t)
		must(w.invite("boss", "renamed@example.org"))(t)
		stranger["email"], stranger["email_verified"] = "renamed@example.org", false
		must(w.comeIn(i, stranger))(t)
		if got := w.rolesOf("stranger@example.org"); got != "" {
			t.Errorf("an unverified address gives %q", got)
		}
		wantError(t, "disabling", w.service.DisableUser(t.Context(), "stranger"), nil)
		stranger["email_verified"] = true
		_, err := w.comeIn(i, stranger)
		wantError(t, "a disabled user", err, fault.Denied)
		if got := w.invitations(); got != "[renamed@example.org lab:member by boss]" {
			t.Errorf("a disabled user has accepted: %s", got)
		}
		wantError(t, "enabling", w.service.EnableUser(t.Context(), "stranger"), nil)
		must(w.comeIn(i, stranger))(t)
		if got := w.rolesOf("stranger@example.org"); got != "lab: member" {
			t.Errorf("the user has %q", got)
		}
		p := must(w.inviteToWorkspace("owner", "view2@example.org"))(t)
		must(w.client.UpdateParticipantRole(w.as("owner"), &platformv1.UpdateParticipantRoleRequest{
			OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId()), Role: &platformv1.ParticipantRole{Role: "owner"},
		}))(t)
		view := map[string]any{"sub": "s2", "email": "view@example.org"}
		must(w.comeIn(i, view))(t)
		view["email"] = "view2@example.org"
		must(w.comeIn(i, view))(t)
		if got := w.rolesOf("view@example.org"); got != "lab: member, bench: view" || w.invitations() != "[]" {
			t.Errorf("a participant becomes %q; there wait %s", got, w.invitations())
		}
	})
}

// TestInvitationsEnd checks that expired, revoked and deleted invitations give no role, and who may
// change them.
func TestInvitationsEnd(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "invitations")
		refused := func(address string) {
			t.Helper()
			_, err := w.comeIn(i, map[string]any{"sub": address, "email": address})
			wantError(t, address, err, fault.Denied)
		}
		_, err := w.invite("member", "kim@example.org")
		wantError(t, "inviting as a member", err, fault.Denied)
		_, err = w.inviteToWorkspace("maintain", "kim@example.org")
		wantError(t, "inviting as a maintainer", err, fault.Denied)
		for _, address := range []string{"nobody", "Kim <kim@example.org>", "kim@example.org ", "kim@", "@", ""} {
			_, err = w.invite("boss", address)
			wantError(t, address, err, fault.Invalid)
		}
		m := must(w.invite("boss", "kim@example.org"))(t)
		p := must(w.inviteToWorkspace("owner", "kim@example.org"))(t)
		other := must(w.inviteToWorkspace("owner", "lee@example.org"))(t)
		if other.GetType() != "COLLABORATOR" || other.GetMemberId() != nil {
			t.Errorf("invited %v", other)
		}
		_, err = w.client.AddParticipant(w.as("owner"), &platformv1.AddParticipantRequest{
			OrgId: w.org, Id: w.ws, Participant: &platformv1.ParticipantSpec{MemberId: int64(m.GetMemberId())},
		})
		wantError(t, "the same address, by the id of its invitation", err, fault.Conflict)
		list := must(w.client.ListParticipants(w.as("owner"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws, Search: "KIM@example.org"}))(t)
		if got := list.GetParticipants(); len(got) != 1 || list.GetTotalSize() != 1 || got[0].GetType() != "MEMBER" || got[0].GetOrgRole().GetValue() != "member" {
			t.Errorf("found are %v", list)
		}
		_, err = w.client.DeleteMember(w.as("member"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: int64(m.GetMemberId())})
		wantError(t, "revoking as a member", err, fault.Denied)
		_, err = w.client.DeleteMember(w.as("boss"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: int64(p.GetParticipantId())})
		wantError(t, "revoking an invitation to a workspace as one to the organisation", err, fault.NotFound)
		role := func(as, role string) error {
			_, err := w.client.UpdateParticipantRole(w.as(as), &platformv1.UpdateParticipantRoleRequest{
				OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId()), Role: &platformv1.ParticipantRole{Role: role},
			})
			return err
		}
		wantError(t, "an admin invites an owner", role("admin", "owner"), fault.Denied)
		wantError(t, "an owner invites an owner", role("owner", "owner"), nil)
		wantError(t, "an admin changes an owner", role("admin", "view"), fault.Denied)
		_, err = w.client.DeleteParticipant(w.as("admin"), &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: int64(p.GetParticipantId())})
		wantError(t, "an admin revokes an owner", err, fault.Denied)
		must(w.client.DeleteParticipant(w.as("admin"), &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: int64(other.GetParticipantId())}))(t)
		must(w.client.DeleteMember(w.as("boss"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: int64(m.GetMemberId())}))(t)
		if got := w.invitations(); got != "[]" {
			t.Errorf("revoking the invitation to an organisation leaves %s", got)
		}
		refused("kim@example.org")
		refused("lee@example.org")

		must(w.invite("boss", "kim@example.org"))(t)
		must(w.inviteToWorkspace("owner", "lee@example.org"))(t)
		w.clock.now = w.clock.now.Add(limits.InvitationLife)
		if got := w.invitations(); got != "[]" {
			t.Errorf("listed are expired %s", got)
		}
		refused("kim@example.org")
		again := must(w.invite("boss", "kim@example.org"))(t)
		wantError(t, "the sweep", w.service.Sweep(t.Context()), nil)
		if got := w.actions("invitation.expire"); got != "[slipwayd invitation.expire kim@example.org slipwayd invitation.expire lee@example.org]" {
			t.Errorf("recorded are %s", got)
		}
		if got := w.invitations(); got != "[kim@example.org lab:member by boss]" {
			t.Errorf("after the sweep wait %s, want %v", got, again)
		}
		created := must(w.client.CreateWorkspace(w.as("boss"), &platformv1.CreateWorkspaceRequest{
			OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new("short")}},
		}))(t)
		at := int64(created.GetWorkspace().GetId())
		must(w.client.AddParticipant(w.as("boss"), &platformv1.AddParticipantRequest{OrgId: w.org, Id: at, Participant: &platformv1.ParticipantSpec{UserNameOrEmail: "max@example.org"}}))(t)
		must(w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: at}))(t)
		refused("max@example.org")
	})
}

// TestInvitationsAreLimited checks the maximum number of an organisation's invitations, in which
// those to its workspaces count.
func TestInvitationsAreLimited(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := invitationWorld(t, db, testkit.NewIssuer(t))
		for n := range limits.InvitationsPerOrganization - 2 {
			must(db.ExecContext(t.Context(), `
				INSERT INTO platform_invitations (id, org_id, email, role, inviter_id, invited_by, created_at, expires_at) VALUES ($1, $2, $3, 'member', 1, 'boss', 1, $4)`,
				n+1, w.org, fmt.Sprintf("u%d@example.org", n), sqldb.Micros(w.clock.now.Add(time.Hour))))(t)
		}
		must(w.inviteToWorkspace("boss", "kim@example.org"))(t)
		last := must(w.invite("boss", "kim@example.org"))(t)
		_, err := w.inviteToWorkspace("boss", "lee@example.org")
		wantError(t, "one invitation more to the workspace", err, fault.Invalid)
		_, err = w.invite("boss", "lee@example.org")
		wantError(t, "one invitation more", err, fault.Invalid)
		if e, ok := fault.As(err); !ok || e.Code != fault.ObjectLimit || !strings.Contains(e.Public, "the limit is 1000") {
			t.Errorf("one invitation more: %v", err)
		}
		if m, err := w.invite("boss", "stranger@example.org"); err != nil || m.GetInvitation() != nil {
			t.Errorf("a user is added as %v, %v", m, err)
		}
		page := must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org, Max: new(int32(10)), Offset: new(int32(6))}))(t)
		if n := page.GetTotalSize(); n != 9+limits.InvitationsPerOrganization-1 || len(page.GetMembers()) != 10 || page.GetMembers()[2].GetInvitation() != nil || page.GetMembers()[3].GetInvitation() == nil {
			t.Errorf("%d in total, %v", n, page)
		}
		must(w.client.DeleteMember(w.as("boss"), &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: int64(last.GetMemberId())}))(t)
		must(w.invite("boss", "lee@example.org"))(t)
		w.clock.now = w.clock.now.Add(2 * time.Hour)
		wantError(t, "the sweep", w.service.Sweep(t.Context()), nil)
		must(w.invite("boss", "max@example.org"))(t)
	})
}

// TestInvitationsAreAcceptedOnce checks concurrent sign-ins with invited addresses: each role is
// accepted once, and one user is created for an address.
func TestInvitationsAreAcceptedOnce(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := invitationWorld(t, db, testkit.NewIssuer(t))
		must(w.invite("boss", "kim@example.org"))(t)
		must(w.inviteToWorkspace("owner", "kim@example.org"))(t)
		must(db.ExecContext(t.Context(), `INSERT INTO platform_users (id, user_name, email, created_at) VALUES (77, 'kim', 'kim@example.org', 1)`))(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := w.service.AcceptInvitations(context.WithoutCancel(t.Context()), identity.User{ID: 77, Name: "kim"}, "kim@example.org"); err != nil {
					t.Error(err)
				}
			})
		}
		must(w.invite("boss", "lee@example.org"))(t)
		for n := range 8 {
			wg.Go(func() {
				_, err := w.service.CreateUser(context.WithoutCancel(t.Context()), identity.Account{Name: fmt.Sprintf("lee%d", n), Email: "lee@example.org"})
				if err != nil && !errors.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := w.rolesOf("lee@example.org"); got != "lab: member" {
			t.Errorf("the created user has %q", got)
		}
		if got := w.rolesOf("kim@example.org"); got != "lab: member, bench: launch" {
			t.Errorf("the user has %q", got)
		}
		if got := w.actions("invitation.accept"); strings.Count(got, "kim@example.org") != 2 || strings.Count(got, "lee@example.org") != 1 {
			t.Errorf("recorded are %s", got)
		}
	})
}

// TestInvitationsOfDeletedOrganizations checks that the invitations to an organisation, and the
// right to an account with them, end with it.
func TestInvitationsOfDeletedOrganizations(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "invitations")
		o := must(w.client.CreateOrganization(w.as("boss"), &platformv1.CreateOrganizationRequest{
			Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new("short")}},
		}))(t)
		at := int64(o.GetOrganization().GetOrgId())
		for _, address := range []string{"kim@example.org", "lee@example.org"} {
			must(w.client.AddMember(w.as("boss"), &platformv1.AddMemberRequest{OrgId: at, Member: &platformv1.MemberSpec{User: address}}))(t)
		}
		must(w.invite("boss", "lee@example.org"))(t)
		must(w.client.DeleteOrganization(w.as("boss"), &platformv1.DeleteOrganizationRequest{OrgId: at}))(t)
		_, err := w.comeIn(i, map[string]any{"sub": "s1", "email": "kim@example.org"})
		wantError(t, "an address that only the deleted organisation has invited", err, fault.Denied)
		if got, err := w.comeIn(i, map[string]any{"sub": "s2", "email": "lee@example.org"}); err != nil || got != "lab: member" {
			t.Errorf("with an invitation to another organisation: %q, %v", got, err)
		}
		if got := w.actions("invitation.accept"); strings.Count(got, "invitation.accept") != 1 {
			t.Errorf("recorded are %s", got)
		}
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM platform_invitations`).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d invitations are left, %v", n, err)
		}
	})
}

// TestAddressesOfSeveralUsers checks that an address that several users have, as older versions
// permitted, is neither invited nor added, and that neither user gets its invitations at a sign-in.
func TestAddressesOfSeveralUsers(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := invitationWorld(t, db, i, "invitations")
		must(w.invite("boss", "kim@example.org"))(t)
		for n, address := range []string{"Kim@example.org", "KIM@example.org"} {
			must(db.ExecContext(t.Context(), `INSERT INTO platform_users (id, user_name, email, created_at) VALUES ($1, $2, $3, 1)`, 70+n, fmt.Sprint("kim", n), address))(t)
		}
		_, err := w.invite("boss", "kim@example.org")
		wantError(t, "adding the address to an organisation", err, fault.Invalid)
		if !strings.Contains(fmt.Sprint(err), "Several users have the address") {
			t.Error(err)
		}
		_, err = w.inviteToWorkspace("admin", "kIm@example.org")
		wantError(t, "adding the address to a workspace", err, fault.Invalid)
		_, err = w.comeIn(i, map[string]any{"sub": "s1", "email": "kim@example.org"})
		wantError(t, "signing in with the address", err, fault.Denied)
		if got := w.invitations(); got != "[kim@example.org lab:member by boss]" {
			t.Errorf("there wait %s", got)
		}
		if m, err := w.invite("boss", "Kim@example.org"); err != nil || m.GetUserName() != "kim0" || m.GetInvitation() != nil {
			t.Errorf("adding the user with exactly this address: %v, %v", m, err)
		}
	})
}
