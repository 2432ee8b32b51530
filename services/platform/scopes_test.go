package platform_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// scoped returns a context with a new token of a user, which has scopes and works in a workspace.
func (w *world) scoped(who, name string, workspace int64, scopes ...string) context.Context {
	w.t.Helper()
	return bearer(w.t.Context(), w.scopedToken(w.as(who), name, workspace, scopes...))
}

func (w *world) scopedToken(ctx context.Context, name string, workspace int64, scopes ...string) string {
	w.t.Helper()
	return must(w.client.CreateToken(ctx, &platformv1.CreateTokenRequest{
		Token: &platformv1.TokenSpec{Name: name, Scopes: scopes, WorkspaceId: workspace},
	}))(w.t).GetAccessKey()
}

// lacksScope reports whether a call was rejected because of the token's restriction.
func lacksScope(err error) bool {
	e, ok := fault.As(err)
	return ok && e.Code == fault.TokenScope && e.Kind == fault.Denied
}

// scopesOfCalls lists every call with an access token by the scope that it needs. It repeats the
// access rules independently: a call that is missing here must be denied to all tokens with scopes.
func scopesOfCalls() map[rpc.Scope][]string {
	return map[rpc.Scope][]string{
		rpc.ScopeAny:         {"GetUserInfo", "ListUserWorkspaces"},
		rpc.ScopeCredentials: {"ListCredentials", "DescribeCredentials", "GetCredentialsKeys"},
		rpc.ScopeRuns: {
			"ListComputeEnvs", "ListWorkflows", "DescribeWorkflow", "ValidateWorkflowName", "GetWorkflowProgress", "GetWorkflowMetrics",
			"GetWorkflowLaunch", "ListTasks", "DescribeTask", "UpdateWorkflow", "DeleteWorkflow", "DeleteWorkflows", "CancelWorkflow",
			"CreateTrace", "BeginTrace", "RecordProgress", "RecordHeartbeat", "CompleteTrace",
		},
		rpc.ScopeAdmin: {
			"ListTokens", "CreateToken", "DeleteToken", "DeleteAllTokens",
			"ListAccounts", "CreateAccount", "UpdateAccount", "DeleteAccount", "ListAuditEvents",
			"ListLimits", "SetLimit", "DeleteLimit", "ListOwnLimits", "ListOrganizationLimits",
			"ListOrganizations", "CreateOrganization", "ValidateOrganizationName", "DescribeOrganization", "ListMembers", "LeaveOrganization",
			"ListWorkspaces", "ValidateWorkspaceName", "UpdateOrganization", "DeleteOrganization", "AddMember", "UpdateMemberRole", "DeleteMember",
			"CreateWorkspace", "DescribeWorkspace", "ListParticipants", "LeaveWorkspace", "UpdateWorkspace", "AddParticipant",
			"UpdateParticipantRole", "DeleteParticipant", "DeleteWorkspace",
			"ListRobots", "CreateRobot", "DescribeRobot", "UpdateRobot", "DeleteRobot", "ListRobotTokens", "CreateRobotToken", "DeleteRobotToken",
			"ValidateCredentialsName", "CreateCredentials", "UpdateCredentials", "DeleteCredentials",
			"ListWebhooks", "CreateWebhook", "DescribeWebhook", "UpdateWebhook", "DeleteWebhook", "TestWebhook", "ListDeliveries", "DescribeDelivery", "RepeatDelivery",
			"ListVexDocuments", "DescribeVexDocument", "SetVexDocument", "DeleteVexDocument",
		},
	}
}

// callsWithToken lists the calls that require an access token.
func callsWithToken() []string {
	without := []string{
		"Authorize", "GetCredentials", "GetRunState", "GetLimits", "GetVex", "AuthorizeUsage", "DescribeNames", "CreatePairing",
		"GetServiceInfo", "CreateCode", "BeginSignIn", "FinishSignIn", "BeginDeviceSignIn", "DescribeDevice", "GrantConsent", "IssueTokens",
	}
	var all []string
	for _, m := range methods() {
		if !slices.Contains(without, string(m.Name())) {
			all = append(all, "/"+string(m.Parent().FullName())+"/"+string(m.Name()))
		}
	}
	// The call that deletes the tokens of the test is made last.
	slices.SortFunc(all, func(a, b string) int {
		return strings.Compare(fmt.Sprint(strings.HasSuffix(a, "/DeleteAllTokens"), a), fmt.Sprint(strings.HasSuffix(b, "/DeleteAllTokens"), b))
	})
	return all
}

// TestScopesOfEveryCall makes every call with a token of each scope, and with a token of one
// workspace. The requests are empty, so that only the last call changes anything.
func TestScopesOfEveryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	need := map[string]rpc.Scope{}
	for scope, calls := range scopesOfCalls() {
		for _, call := range calls {
			need[call] = scope
		}
	}
	tokens := map[rpc.Scope]context.Context{}
	for _, scope := range rpc.Scopes() {
		tokens[scope] = w.scoped("boss", string(scope), 0, string(scope))
	}
	inWorkspace := w.scoped("boss", "workspace", w.ws)
	for _, call := range callsWithToken() {
		name := call[strings.LastIndexByte(call, '/')+1:]
		err := w.client.Invoke(inWorkspace, call, &emptypb.Empty{}, &emptypb.Empty{})
		if may := worksInWorkspace(name); lacksScope(err) == may {
			t.Errorf("%s with a token of one workspace: allowed is %t, but got %v", name, may, err)
		}
		for _, scope := range rpc.Scopes() {
			err := w.client.Invoke(tokens[scope], call, &emptypb.Empty{}, &emptypb.Empty{})
			// An empty CreateToken requests a token with all rights, which a token with scopes may
			// not create.
			if may := (need[name] == rpc.ScopeAny || need[name] == scope) && name != "CreateToken"; lacksScope(err) == may {
				t.Errorf("%s with the scope %s: allowed is %t, but got %v", name, scope, may, err)
			} else if !may && need[name] != "" && !strings.Contains(err.Error(), string(need[name])) {
				t.Errorf("%s: the error does not name the scope %s: %v", name, need[name], err)
			}
		}
	}
}

// worksInWorkspace reports whether a call acts in one workspace.
func worksInWorkspace(name string) bool {
	by := scopesOfCalls()
	return slices.Contains(slices.Concat(by[rpc.ScopeAny], by[rpc.ScopeCredentials], by[rpc.ScopeRuns], []string{
		"DescribeWorkspace", "ListParticipants", "LeaveWorkspace", "UpdateWorkspace", "AddParticipant", "UpdateParticipantRole", "DeleteParticipant",
		"DeleteWorkspace", "ValidateCredentialsName", "CreateCredentials", "UpdateCredentials", "DeleteCredentials",
		"ListWebhooks", "CreateWebhook", "DescribeWebhook", "UpdateWebhook", "DeleteWebhook", "TestWebhook", "ListDeliveries", "DescribeDelivery", "RepeatDelivery",
	}), name)
}

// TestCallWithoutScope checks that a call whose rule has no scope is denied to restricted tokens.
func TestCallWithoutScope(t *testing.T) {
	t.Parallel()
	every := identity.Restriction{Scopes: rpc.Scopes()}
	for name, err := range map[string]error{
		"none": every.Check(), "empty": every.Check(""), "one of two": every.Check(rpc.ScopePull, ""),
		"of one workspace": identity.Restriction{Workspace: 5}.Check(""), "of repositories": identity.Restriction{Repositories: []oci.RepositoryPattern{"ghcr.io/*"}}.Check(""),
	} {
		if !lacksScope(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range []identity.Restriction{{}, every} {
		wantError(t, "a full token", r.Check(rpc.ScopePull, rpc.ScopeAdmin), nil)
	}
}

// TestAuthorizeScopes checks the scopes that other services require.
func TestAuthorizeScopes(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		other := int64(must(w.client.CreateWorkspace(w.as("boss"), &platformv1.CreateWorkspaceRequest{
			OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new("other")}},
		}))(t).GetWorkspace().GetId())
		full := w.tokens["boss"]
		scoped := w.scopedToken(w.as("boss"), "scoped", 0, "pull", "request")
		within := w.scopedToken(w.as("boss"), "within", w.ws)
		for name, c := range map[string]struct {
			token     string
			workspace int64
			scopes    []string
			want      int64 // the workspace of the identity; -1 if the token is rejected for its restriction
		}{
			"a full token":                       {full, 0, nil, 0},
			"a full token in a workspace":        {full, other, []string{"build"}, other},
			"a scope":                            {scoped, 0, []string{"request"}, 0},
			"two scopes":                         {scoped, w.ws, []string{"request", "pull"}, w.ws},
			"one of two":                         {scoped, 0, []string{"request", "build"}, -1},
			"another scope":                      {scoped, 0, []string{"admin"}, -1},
			"no scope, as the previous release":  {scoped, 0, nil, -1},
			"a rule without a scope":             {scoped, 0, []string{""}, -1},
			"its workspace":                      {within, w.ws, []string{"build"}, w.ws},
			"no workspace is its workspace":      {within, 0, []string{"build"}, w.ws},
			"another workspace":                  {within, other, []string{"build"}, -1},
			"no scope, of one workspace":         {within, w.ws, nil, -1},
			"of one workspace, unknown scope ''": {within, w.ws, []string{""}, -1},
		} {
			resp, err := w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: c.token, WorkspaceId: c.workspace, Scopes: c.scopes})
			if c.want < 0 && !lacksScope(err) || c.want >= 0 && (err != nil || resp.GetIdentity().GetWorkspaceId() != c.want) {
				t.Errorf("%s: %v, %v", name, resp, err)
			}
		}
		// An administrator of the platform has no such right with a token of one workspace.
		if err := w.service.SetAdministrator(t.Context(), "boss", true); err != nil {
			t.Fatal(err)
		}
		for token, want := range map[string]bool{full: true, within: false} {
			resp := must(w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token, Scopes: []string{"admin"}}))(t)
			if resp.GetAdministrator() != want {
				t.Errorf("administrator: %t, want %t", resp.GetAdministrator(), want)
			}
		}
	})
}

// TestScopedTokenGainsNothing tries to turn restricted tokens into tokens with more rights.
func TestScopedTokenGainsNothing(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		create := func(ctx context.Context, spec *platformv1.TokenSpec) error {
			_, err := w.client.CreateToken(ctx, &platformv1.CreateTokenRequest{Token: spec})
			return err
		}
		expires := w.clock.now.Add(24 * time.Hour)
		by := must(w.client.CreateToken(w.as("boss"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{
			Name: "ci", Scopes: []string{"admin", "pull"}, Expires: expires.Format(time.RFC3339),
		}}))(t).GetAccessKey()
		ctx := bearer(t.Context(), by)
		for name, spec := range map[string]*platformv1.TokenSpec{
			"all rights":            {Name: "a"},
			"another scope":         {Name: "b", Scopes: []string{"pull", "build"}},
			"any":                   {Name: "c", Scopes: []string{"any"}},
			"a later expiry":        {Name: "d", Scopes: []string{"pull"}, Expires: expires.Add(time.Hour).Format(time.RFC3339)},
			"never":                 {Name: "e", Scopes: []string{"pull"}, Expires: "never"},
			"a workspace, all else": {Name: "f", WorkspaceId: w.ws},
		} {
			if err := create(ctx, spec); name != "any" && !lacksScope(err) || name == "any" && err == nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		child := must(w.client.CreateToken(ctx, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "child", Scopes: []string{"pull"}}}))(t).GetToken()
		if !child.GetExpires().AsTime().Equal(expires) || !slices.Equal(child.GetScopes(), []string{"pull"}) {
			t.Errorf("the child is %v", child)
		}
		// Signing in gives a program the rights of the user, so that it needs a full token.
		within := w.scopedToken(w.as("boss"), "within", w.ws, "admin")
		if err := create(bearer(t.Context(), within), &platformv1.TokenSpec{Name: "g", Scopes: []string{"admin"}, WorkspaceId: w.ws}); !lacksScope(err) {
			t.Errorf("a token of one workspace creates tokens: %v", err)
		}
		device := must(w.client.BeginDeviceSignIn(t.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: "nf"}))(t)
		for _, token := range []string{by, within} {
			_, err := w.client.CreateCode(t.Context(), &platformv1.CreateCodeRequest{
				AccessToken: token, ClientId: "nf", RedirectUri: "http://127.0.0.1:1/", CodeChallenge: strings.Repeat("a", 43), CodeChallengeMethod: "S256",
			})
			if !lacksScope(err) {
				t.Errorf("a code: %v", err)
			}
			_, err = w.client.DescribeDevice(t.Context(), &platformv1.DescribeDeviceRequest{AccessToken: token, UserCode: device.GetUserCode()})
			if !lacksScope(err) {
				t.Errorf("a device: %v", err)
			}
			_, err = w.client.IssueTokens(t.Context(), &platformv1.IssueTokensRequest{GrantType: "refresh_token", RefreshToken: token})
			wantError(t, "an access token as a refresh token", err, fault.Unauthenticated)
		}
		// The workspace must be one of the user's.
		wantError(t, "a workspace of others", create(w.as("stranger"), &platformv1.TokenSpec{Name: "x", WorkspaceId: w.ws}), fault.Denied)
		for name, spec := range map[string]*platformv1.TokenSpec{
			"an unknown scope": {Name: "x", Scopes: []string{"everything"}},
			"no scope":         {Name: "x", Scopes: []string{""}},
			"many scopes":      {Name: "x", Scopes: slices.Repeat([]string{"pull"}, 8)},
			"no workspace":     {Name: "x", WorkspaceId: -1},
		} {
			wantError(t, name, create(w.as("boss"), spec), fault.Invalid)
		}
	})
}

// TestTokenOfOneWorkspace checks that a token of one workspace reads nothing of others, and acts in
// its workspace if a call names none.
func TestTokenOfOneWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	boss := w.as("boss")
	other := int64(must(w.client.CreateWorkspace(boss, &platformv1.CreateWorkspaceRequest{
		OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new("other")}},
	}))(t).GetWorkspace().GetId())
	for name, ws := range map[string]*int64{"own": nil, "inside": &w.ws, "outside": &other} {
		must(w.client.CreateCredentials(boss, &platformv1.CreateCredentialsRequest{WorkspaceId: ws, Body: login(name, "quay.io", "secret")}))(t)
	}
	ctx := w.scoped("boss", "within", w.ws)
	for name, ws := range map[string]*int64{"named": &w.ws, "omitted": nil, "zero": new(int64)} {
		list := must(w.client.ListCredentials(ctx, &platformv1.ListCredentialsRequest{WorkspaceId: ws}))(t).GetCredentials()
		if len(list) != 1 || list[0].GetName() != "inside" {
			t.Errorf("%s: %v", name, list)
		}
	}
	_, err := w.client.ListCredentials(ctx, &platformv1.ListCredentialsRequest{WorkspaceId: &other})
	_, pathErr := w.client.DescribeWorkspace(ctx, &platformv1.DescribeWorkspaceRequest{OrgId: w.org, Id: other})
	if !lacksScope(err) || !lacksScope(pathErr) {
		t.Errorf("another workspace: %v, %v", err, pathErr)
	}
	must(w.client.DescribeWorkspace(ctx, &platformv1.DescribeWorkspaceRequest{OrgId: w.org, Id: w.ws}))(t)
	// In the path of an organisation, 0 does not mean the token's workspace.
	_, err = w.client.DescribeWorkspace(ctx, &platformv1.DescribeWorkspaceRequest{OrgId: w.org})
	wantError(t, "workspace 0 of an organisation", err, fault.Denied)
	places := must(w.client.ListUserWorkspaces(ctx, &platformv1.ListUserWorkspacesRequest{UserId: w.ids["boss"]}))(t).GetOrgsAndWorkspaces()
	if len(places) != 2 || places[0].GetWorkspaceId() != nil || int64(places[1].GetWorkspaceId().GetValue()) != w.ws {
		t.Errorf("the token lists %v", places)
	}
	if r := must(w.client.GetUserInfo(ctx, &platformv1.GetUserInfoRequest{}))(t).GetToken(); int64(r.GetWorkspaceId().GetValue()) != w.ws || len(r.GetScopes()) > 0 {
		t.Errorf("the restriction is %v", r)
	}
	// The token does not work after the participant has been deleted.
	launch := w.scoped("launch", "within", w.ws)
	must(w.client.DeleteParticipant(boss, &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["launch"]}))(t)
	_, err = w.client.ListWorkflows(launch, &platformv1.ListWorkflowsRequest{})
	wantError(t, "no participant any more", err, fault.Denied)
}

// TestPreviousReleaseRejectsScopedTokens checks that secret_hash, which the previous release compares
// with the hash of a secret, is empty for tokens with restrictions, which that release does not know.
func TestPreviousReleaseRejectsScopedTokens(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		w.scoped("boss", "scoped", 0, "pull")
		w.scoped("boss", "within", w.ws)
		w.tokenOf(w.as("boss"), &platformv1.TokenSpec{Name: "lab", Repositories: []string{"ghcr.io/lab/*"}})
		rows := must(db.QueryContext(t.Context(), `SELECT t.name, length(t.secret_hash) FROM platform_tokens t WHERE t.user_id = $1`, w.ids["boss"]))(t)
		defer func() { _ = rows.Close() }()
		seen := map[string]int{}
		for rows.Next() {
			var name string
			var n int
			if err := rows.Scan(&name, &n); err != nil {
				t.Fatal(err)
			}
			seen[name] = n
		}
		if err := rows.Err(); err != nil || seen["first"] != 32 || seen["scoped"] != 0 || seen["within"] != 0 || seen["lab"] != 0 || len(seen) != 4 {
			t.Errorf("the stored hashes have %v bytes, %v", seen, err)
		}
	})
}

// TestScopedTokenOfAnotherPlatform checks that a platform does not accept a restricted token of
// another platform that it trusts.
func TestScopedTokenOfAnotherPlatform(t *testing.T) {
	t.Parallel()
	e := newOtherPlatform(t, january())
	client := e.trusting(t, testkit.SQLite(t), newKeys(t), local)
	for name, token := range map[string]string{
		"with scopes":      e.scopedToken(e.as("launch"), "scoped", 0, "pull", "request", "build", "credentials:read"),
		"of one workspace": e.scopedToken(e.as("launch"), "within", e.ws),
		"of repositories":  e.tokenOf(e.as("launch"), &platformv1.TokenSpec{Name: "lab", Repositories: []string{"ghcr.io/lab/*"}}),
	} {
		if _, err := e.authorize(client, token, "", e.ws); !lacksScope(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(e.authorize(client, e.tokens["launch"], "", e.ws))(t)
}

// TestLastAddress checks that the list of tokens shows the client's address at the last use.
func TestLastAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	token := w.scopedToken(w.as("boss"), "used", 0, "runs")
	from := metadata.AppendToOutgoingContext(bearer(t.Context(), token), "x-slipway-client-ip", netip.MustParseAddr("192.0.2.7").String())
	must(w.client.ListWorkflows(from, &platformv1.ListWorkflowsRequest{}))(t)
	for _, r := range must(w.client.ListTokens(w.as("boss"), &platformv1.ListTokensRequest{}))(t).GetTokens() {
		if r.GetName() == "used" && (r.GetLastAddress().GetValue() != "192.0.2.7" || !r.GetLastUsed().AsTime().Equal(w.clock.now)) {
			t.Errorf("the token is %v", r)
		}
	}
}
