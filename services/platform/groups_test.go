package platform_test

import (
	"fmt"
	"strings"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// groupsWorld returns a world with the roles of some groups.
func groupsWorld(t *testing.T, db *sqldb.DB, i *testkit.Issuer) *world {
	t.Helper()
	c := january()
	d := deps(t, db)
	d.Now, d.OIDC = c.Now, identity.OIDC{
		Issuer: i.URL, ClientID: testkit.IssuerClient, ClientSecret: testkit.IssuerSecret, AutoCreate: []string{"groups"}, GroupsClaim: "groups",
	}
	d.GroupRoles = must(orgs.ParseGroupRoles([]string{
		"staff=lab", "heads=LAB:owner", "staff=lab/bench:view", "heads=lab/bench:maintain", "it=administrator", "cn=a,dc=b=lab/bench:launch", "staff=gone", "staff=lab/gone:view",
	}))(t)
	return newWorldWith(t, d, c)
}

// comeIn signs in a user of the provider, and returns the user's roles.
func (w *world) comeIn(i *testkit.Issuer, claims map[string]any) (string, error) {
	w.t.Helper()
	if _, err := w.finish(w.arrive(i, claims), "good"); err != nil {
		return "", err
	}
	return w.rolesOf(fmt.Sprint(claims["email"])), nil
}

// rolesOf describes the roles of a user, without those of invitations: "lab: owner, bench: view, administrator".
func (w *world) rolesOf(email string) string {
	w.t.Helper()
	var out []string
	for _, m := range must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org, Search: email}))(w.t).GetMembers() {
		if m.GetInvitation() == nil {
			out = append(out, "lab: "+m.GetRole())
		}
	}
	for _, p := range must(w.client.ListParticipants(w.as("owner"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws, Search: email}))(w.t).GetParticipants() {
		if p.GetInvitation() == nil {
			out = append(out, "bench: "+p.GetWspRole())
		}
	}
	users := must(w.service.Users(w.t.Context()))(w.t)
	for _, u := range users {
		if u.Email == email && u.Administrator {
			out = append(out, "administrator")
		}
	}
	return strings.Join(out, ", ")
}

// TestRolesFollowGroups checks that sign-ins grant and revoke the roles of groups, and do not
// change roles that users have granted.
func TestRolesFollowGroups(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := groupsWorld(t, db, i).withAdministrator()
		kim := func(groups any) map[string]any {
			return map[string]any{"sub": "s1", "email": "kim@lab.example", "groups": groups}
		}
		_, err := w.comeIn(i, kim([]string{"others"}))
		wantError(t, "a stranger without a group", err, fault.Denied)
		for _, c := range []struct {
			why    string
			groups any
			want   string
		}{
			{"the first sign-in creates the user", []string{"staff"}, "lab: member, bench: view"},
			{"the same again", []string{"staff", "others"}, "lab: member, bench: view"},
			{"the highest of several roles", []string{"staff", "heads"}, "lab: owner, bench: maintain"},
			{"a name with an equals sign", []string{"staff", "cn=a,dc=b"}, "lab: member, bench: launch"},
			{"one name instead of a list", "it", "administrator"},
			{"a role in a workspace alone", []string{"cn=a,dc=b"}, "bench: launch"},
			{"null is no group", nil, ""},
			{"again", []string{"heads"}, "lab: owner, bench: maintain"},
			{"no groups", []string{}, ""},
		} {
			if got, err := w.comeIn(i, kim(c.groups)); err != nil || got != c.want {
				t.Errorf("%s: %q, want %q: %v", c.why, got, c.want, err)
			}
		}
		if got, err := w.comeIn(i, kim([]string{"heads"})); err != nil || got != "lab: owner, bench: maintain" {
			t.Errorf("%q, %v", got, err)
		}
		without := kim(nil)
		delete(without, "groups")
		without["_claim_names"], without["_claim_sources"] = map[string]string{"groups": "src1"}, map[string]any{"src1": map[string]string{"endpoint": "https://x"}}
		if got, err := w.comeIn(i, without); err != nil || got != "lab: owner, bench: maintain" {
			t.Errorf("groups that the provider only refers to: %q, %v", got, err)
		}
		delete(without, "_claim_names")
		delete(without, "_claim_sources")
		if got, err := w.comeIn(i, without); err != nil || got != "" {
			t.Errorf("a user without the claim: %q, %v", got, err)
		}
		for want, groups := range map[string]any{"not a list of names": map[string]any{"a": 1}, "more than 1000 groups": make([]string, 1001)} {
			if _, err := w.comeIn(i, kim(groups)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		events := must(w.client.ListAuditEvents(w.as("owner"), &platformv1.ListAuditEventsRequest{Actor: "oidc:" + i.URL}))(t).GetEvents()
		actions := map[string]bool{}
		for _, e := range events {
			actions[e.GetAction()] = true
		}
		for _, want := range []string{"user.create", "member.add", "member.role", "member.remove", "participant.add", "participant.role", "participant.remove", "user.grant", "user.revoke"} {
			if !actions[want] {
				t.Errorf("%s is not recorded for the provider: %v", want, actions)
			}
		}
	})
}

// TestGroupsLeaveOtherRoles checks that groups neither reduce nor revoke roles that users have
// granted, and that the last owner and the last administrator keep their roles.
func TestGroupsLeaveOtherRoles(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		i := testkit.NewIssuer(t)
		w := groupsWorld(t, db, i)
		// A participant whose role a user has granted.
		hers := map[string]any{"sub": "s2", "email": "admin@example.org", "groups": []string{"staff"}}
		before := w.rolesOf("admin@example.org")
		if got, err := w.comeIn(i, hers); err != nil || got != before {
			t.Errorf("a sign-in changes %q to %q, %v", before, got, err)
		}
		hers["groups"] = []string{}
		if got, err := w.comeIn(i, hers); err != nil || got != before {
			t.Errorf("without groups %q becomes %q, %v", before, got, err)
		}
		// Groups do not change a role after a user has changed it.
		kim := map[string]any{"sub": "s1", "email": "kim@lab.example", "groups": []string{"heads"}}
		if got, err := w.comeIn(i, kim); err != nil || got != "lab: owner, bench: maintain" {
			t.Fatalf("%q, %v", got, err)
		}
		list := must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org, Search: "kim@lab.example"}))(t).GetMembers()
		must(w.client.UpdateMemberRole(w.as("boss"), &platformv1.UpdateMemberRoleRequest{
			OrgId: w.org, MemberId: int64(list[0].GetMemberId()), Role: &platformv1.RoleSpec{Role: "member"},
		}))(t)
		if got, err := w.comeIn(i, kim); err != nil || got != "lab: member, bench: maintain" {
			t.Errorf("after a person's change: %q, %v", got, err)
		}
		// The last administrator.
		root := map[string]any{"sub": "s3", "email": "root@lab.example", "groups": []string{"it"}}
		if got, err := w.comeIn(i, root); err != nil || got != "administrator" {
			t.Fatalf("%q, %v", got, err)
		}
		root["groups"] = []string{}
		if got, err := w.comeIn(i, root); err != nil || got != "administrator" {
			t.Errorf("the last administrator becomes %q, %v", got, err)
		}
		wantError(t, "granting", w.service.SetAdministrator(t.Context(), "owner", true), nil)
		if got, err := w.comeIn(i, root); err != nil || got != "" {
			t.Errorf("with another administrator the group's becomes %q, %v", got, err)
		}
	})
}

// TestParseGroupRoles checks the errors for invalid lines.
func TestParseGroupRoles(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"lab": "must be GROUP=", "=lab": "must be GROUP=", "a=": "must be GROUP=", "a=:owner": "names no organisation", "a=lab:boss": "owner or member",
		"a=lab/bench": "with a workspace and a role", "a=lab/:view": "with a workspace and a role", "a=lab/bench:boss": "with a workspace and a role",
	} {
		if _, err := orgs.ParseGroupRoles([]string{"a=lab", line}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
