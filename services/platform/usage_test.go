package platform_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// TestAuthorizeUsage checks who may read which usage, in an organisation where each user has
// another role.
func TestAuthorizeUsage(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		administrator := w.administrator("root")
		ask := func(token string, req *platformv1.AuthorizeUsageRequest) (*platformv1.AuthorizeUsageResponse, error) {
			req.AccessToken, req.Scopes = token, []string{"admin"}
			return w.service.AuthorizeUsage(t.Context(), req)
		}
		var org, ws, all platformv1.AuthorizeUsageRequest
		org.OrgId, ws.WorkspaceId = w.org, w.ws
		for _, name := range userNames() {
			token := w.tokens[name]
			_, err := ask(token, &all)
			wantError(t, name+" reads everything", err, fault.Denied)
			_, err = ask(token, &org)
			if name == "boss" {
				wantError(t, name+" reads the organisation", err, nil)
			} else {
				wantError(t, name+" reads the organisation", err, fault.Denied)
			}
			for _, both := range []int64{0, w.org} {
				ws.OrgId = both
				got, err := ask(token, &ws)
				if !slices.Contains([]string{"boss", "owner", "admin"}, name) {
					wantError(t, name+" reads the workspace", err, fault.Denied)
				} else if err != nil || got.GetWorkspaceId() != w.ws || got.GetEverything() {
					t.Errorf("%s reads the workspace: %v %v", name, got, err)
				}
			}
			own, err := ask(token, &platformv1.AuthorizeUsageRequest{Own: true})
			if err != nil || own.GetUserId() != w.ids[name] || own.GetEverything() || own.GetWorkspaceId() != 0 {
				t.Errorf("%s reads their own: %v %v", name, own, err)
			}
		}
		got, err := ask(administrator, &all)
		if err != nil || !got.GetEverything() {
			t.Errorf("an administrator: %v %v", got, err)
		}
		got, err = ask(administrator, &org)
		if err != nil || got.GetEverything() || got.GetOrgId() != w.org || !slices.Equal(got.GetOrgWorkspaceIds(), []int64{w.ws}) {
			t.Errorf("an administrator, of an organisation: %v %v", got, err)
		}
		for what, req := range map[string]*platformv1.AuthorizeUsageRequest{
			"no such organisation": {OrgId: w.org + 1}, "no such workspace": {WorkspaceId: w.ws + 1}, "a workspace of another organisation": {OrgId: w.org + 1, WorkspaceId: w.ws},
			"a negative organisation": {OrgId: -1}, "a negative workspace": {WorkspaceId: -1}, "both": {OrgId: -1, WorkspaceId: -1},
		} {
			for _, token := range []string{administrator, w.tokens["boss"]} {
				_, err := ask(token, req)
				wantError(t, what, err, fault.Denied)
			}
		}
		_, err = ask(administrator, &platformv1.AuthorizeUsageRequest{Own: true, OrgId: w.org})
		wantError(t, "the caller's own of an organisation", err, fault.Invalid)
		_, err = ask("x", &all)
		wantError(t, "an invalid token", err, fault.Unauthenticated)
	})
}

// administrator creates an administrator and returns an access token.
func (w *world) administrator(name string) string {
	w.t.Helper()
	if _, err := w.service.CreateUser(w.t.Context(), identity.Account{Name: name, Email: name + "@example.org"}); err != nil {
		w.t.Fatal(err)
	}
	wantError(w.t, "granting", w.service.SetAdministrator(w.t.Context(), name, true), nil)
	return must(w.service.CreateTokenFor(w.t.Context(), name, identity.NewToken{Name: "first"}))(w.t)
}

// TestRestrictedTokensAndUsage checks that a token with other scopes reads nothing, and a token of
// one workspace only the usage in it, even if its owner may read more.
func TestRestrictedTokensAndUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	token := func(by string, spec *platformv1.TokenSpec) string {
		return must(w.client.CreateToken(w.as(by), &platformv1.CreateTokenRequest{Token: spec}))(t).GetAccessKey()
	}
	requests := func() map[string]*platformv1.AuthorizeUsageRequest {
		return map[string]*platformv1.AuthorizeUsageRequest{"all": {}, "own": {Own: true}, "organisation": {OrgId: w.org}, "workspace": {WorkspaceId: w.ws}}
	}
	builds := token("boss", &platformv1.TokenSpec{Name: "builds", Scopes: []string{"build"}})
	for what, req := range requests() {
		req.AccessToken, req.Scopes = builds, []string{"admin"}
		_, err := w.service.AuthorizeUsage(t.Context(), req)
		wantError(t, what+" with another scope", err, fault.Denied)
	}
	w.tokens["root"] = w.administrator("root")
	audits := token("root", &platformv1.TokenSpec{Name: "runs", Scopes: []string{"runs"}})
	_, err := w.service.AuthorizeUsage(t.Context(), &platformv1.AuthorizeUsageRequest{AccessToken: audits, Scopes: []string{"admin"}})
	wantError(t, "an administrator's token with another scope", err, fault.Denied)
	inside := token("boss", &platformv1.TokenSpec{Name: "inside", WorkspaceId: w.ws})
	for what, req := range requests() {
		req.AccessToken, req.Scopes = inside, []string{"admin"}
		got, err := w.service.AuthorizeUsage(t.Context(), req)
		if what == "all" || what == "organisation" {
			wantError(t, what+" with a token of a workspace", err, fault.Denied)
			continue
		}
		if err != nil || got.GetWorkspaceId() != w.ws || (got.GetUserId() != 0) != (what == "own") {
			t.Errorf("%s with a token of a workspace: %v %v", what, got, err)
		}
	}
}

func TestDescribeNames(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		r := w.robot("boss", nil, "ci", "launch")
		got, err := w.service.DescribeNames(t.Context(), &platformv1.DescribeNamesRequest{
			UserIds: []int64{w.ids["boss"], r.id, 5}, WorkspaceIds: []int64{w.ws, 5}, OrgIds: []int64{w.org, 5},
		})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[int64]string{w.ids["boss"]: "boss", r.id: "robot:lab/ci"}, got.GetUsers()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(map[int64]string{w.org: "lab"}, got.GetOrgs()); d != "" {
			t.Error(d)
		}
		if len(got.GetWorkspaces()) != 1 || got.GetWorkspaces()[w.ws].GetName() != "bench" || got.GetWorkspaces()[w.ws].GetOrgId() != w.org {
			t.Errorf("got %v", got.GetWorkspaces())
		}
		most := make([]int64, limits.DescribedNames)
		if _, err := w.service.DescribeNames(t.Context(), &platformv1.DescribeNamesRequest{UserIds: most, WorkspaceIds: most, OrgIds: most}); err != nil {
			t.Error(err)
		}
		_, err = w.service.DescribeNames(t.Context(), &platformv1.DescribeNamesRequest{OrgIds: append(most, 1)})
		wantError(t, "too many names", err, fault.Invalid)
	})
}
