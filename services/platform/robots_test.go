package platform_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

// A robot is a robot that a user of the test has created.
type robot struct {
	w         *world
	by        string
	workspace *int64 // nil: a robot of the organisation
	id        int64
}

// robot creates a robot of the world's organisation, or of a workspace of it.
func (w *world) robot(who string, workspace *int64, name, role string) robot {
	w.t.Helper()
	made := must(w.client.CreateRobot(w.as(who), &platformv1.CreateRobotRequest{
		OrgId: w.org, WorkspaceId: workspace, Robot: &platformv1.RobotSpec{Name: name, Role: role},
	}))(w.t).GetRobot()
	return robot{w, who, workspace, int64(made.GetId())}
}

// as returns a context with the access token of the user.
func (r robot) as() context.Context { return r.w.as(r.by) }

func (r robot) create(ctx context.Context, spec *platformv1.RobotTokenSpec) (*platformv1.CreateRobotTokenResponse, error) {
	return r.w.client.CreateRobotToken(ctx, &platformv1.CreateRobotTokenRequest{OrgId: r.w.org, WorkspaceId: r.workspace, RobotId: r.id, Token: spec})
}

// token returns a new token of the robot with scopes, by default all that a robot can have.
func (r robot) token(name string, scopes ...string) string {
	r.w.t.Helper()
	if len(scopes) == 0 {
		scopes = robotScopes()
	}
	return must(r.create(r.as(), &platformv1.RobotTokenSpec{Name: name, Scopes: scopes}))(r.w.t).GetAccessKey()
}

func (r robot) get(ctx context.Context) (*platformv1.Robot, error) {
	resp, err := r.w.client.DescribeRobot(ctx, &platformv1.DescribeRobotRequest{OrgId: r.w.org, WorkspaceId: r.workspace, RobotId: r.id})
	return resp.GetRobot(), err
}

func (r robot) update(ctx context.Context, change *platformv1.RobotChange) (*platformv1.Robot, error) {
	resp, err := r.w.client.UpdateRobot(ctx, &platformv1.UpdateRobotRequest{OrgId: r.w.org, WorkspaceId: r.workspace, RobotId: r.id, Robot: change})
	return resp.GetRobot(), err
}

func (r robot) delete(ctx context.Context) error {
	_, err := r.w.client.DeleteRobot(ctx, &platformv1.DeleteRobotRequest{OrgId: r.w.org, WorkspaceId: r.workspace, RobotId: r.id})
	return err
}

// robotScopes repeats the scopes that tokens of robots can have.
func robotScopes() []string {
	return []string{"pull", "request", "build", "freeze", "runs", "credentials:read"}
}

// newWorkspace creates another workspace of the organisation.
func (w *world) newWorkspace(name string) *int64 {
	w.t.Helper()
	made := must(w.client.CreateWorkspace(w.as("boss"), &platformv1.CreateWorkspaceRequest{
		OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: &name}},
	}))(w.t).GetWorkspace()
	id := int64(made.GetId())
	return &id
}

// authorize returns the identity that other services get for a token of this platform.
func (w *world) authorize(token string, workspace int64, scopes ...string) (*platformv1.Identity, error) {
	resp, err := w.client.Authorize(w.t.Context(), &platformv1.AuthorizeRequest{AccessToken: token, WorkspaceId: workspace, Scopes: scopes})
	if resp.GetAdministrator() {
		w.t.Error("a robot is an administrator")
	}
	return resp.GetIdentity(), err
}

// TestRobots uses a robot of a workspace and one of its organisation, until they are deleted.
func TestRobots(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		bus := &listener{}
		d, clock := deps(t, db), january()
		d.Bus, d.Log, d.Now = bus, testkit.Log(t), clock.Now
		w := newWorldWith(t, d, clock).withAdministrator()
		other := w.newWorkspace("other")
		for _, ws := range []*int64{&w.ws, other} {
			must(w.client.CreateCredentials(w.as("boss"), &platformv1.CreateCredentialsRequest{WorkspaceId: ws, Body: login("team", "quay.io", fmt.Sprint(*ws))}))(t)
		}
		inside, all, looks := w.robot("admin", &w.ws, "ci", ""), w.robot("boss", nil, "ci", "launch"), w.robot("admin", &w.ws, "looks", "view")
		names := func(ws *int64) (out []string) {
			for _, r := range must(w.client.ListRobots(w.as("boss"), &platformv1.ListRobotsRequest{OrgId: w.org, WorkspaceId: ws}))(t).GetRobots() {
				out = append(out, r.GetUserName()+" "+r.GetRole()+" "+r.GetCreatedBy())
			}
			return out
		}
		if got := names(&w.ws); !slices.Equal(got, []string{"robot:lab/bench/ci launch admin", "robot:lab/bench/looks view admin"}) {
			t.Errorf("the workspace has %q", got)
		}
		if got := names(nil); !slices.Equal(got, []string{"robot:lab/ci launch boss"}) || names(other) != nil {
			t.Errorf("the organisation has %q", got)
		}
		_, err := w.client.CreateRobot(w.as("admin"), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "ci"}})
		wantError(t, "a name that is taken", err, fault.Conflict)

		token, allToken, looking := inside.token("cluster"), all.token("cluster"), looks.token("cluster")
		_, err = inside.create(inside.as(), &platformv1.RobotTokenSpec{Name: "cluster", Scopes: []string{"pull"}})
		wantError(t, "the name of a token that is taken", err, fault.Conflict)
		for _, c := range []struct {
			token     string
			workspace int64
			want      int64
			err       error
		}{
			{token, 0, w.ws, nil}, {token, w.ws, w.ws, nil}, {token, *other, 0, fault.Denied},
			{allToken, 0, 0, nil}, {allToken, w.ws, w.ws, nil}, {allToken, *other, *other, nil},
		} {
			id, err := w.authorize(c.token, c.workspace, "request", "build")
			wantError(t, fmt.Sprint("workspace ", c.workspace), err, c.err)
			if id.GetWorkspaceId() != c.want {
				t.Errorf("workspace %d: %v", c.workspace, id)
			}
			if secret, err := password(w.client, id, "quay.io/app"); c.want != 0 && (err != nil || secret != fmt.Sprint(c.want)) {
				t.Errorf("the login of workspace %d is %q, %v", c.want, secret, err)
			}
		}
		seen, err := w.authorize(looking, w.ws, "pull")
		if err != nil {
			t.Fatal(err)
		}
		if secret, err := password(w.client, seen, "quay.io/app"); secret != "" || err != nil {
			t.Errorf("the robot that views gets the login %q, %v", secret, err)
		}

		// The robot reports runs, and is shown as a robot.
		run := must(w.client.CreateTrace(bearer(t.Context(), token), &platformv1.CreateTraceRequest{Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		must(w.client.DescribeWorkflow(w.as("view"), &platformv1.DescribeWorkflowRequest{WorkspaceId: &w.ws, WorkflowId: run}))(t)
		user := must(w.client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{}))(t)
		if u := user.GetUser(); u.GetUserName() != "robot:lab/bench/ci" || int64(u.GetId()) != inside.id || u.GetEmail() != "" || len(user.GetToken().GetScopes()) != 6 {
			t.Errorf("the robot is %v", user)
		}
		for token, want := range map[string]string{token: "bench", allToken: "bench other"} {
			id := int64(must(w.client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{}))(t).GetUser().GetId())
			var places []string
			for _, p := range must(w.client.ListUserWorkspaces(bearer(t.Context(), token), &platformv1.ListUserWorkspacesRequest{UserId: id}))(t).GetOrgsAndWorkspaces() {
				if p.GetWorkspaceId() != nil {
					places = append(places, p.GetWorkspaceName().GetValue())
				}
				if slices.Contains(p.GetRoles(), "owner") {
					t.Errorf("the robot owns %v", p)
				}
			}
			if strings.Join(places, " ") != want {
				t.Errorf("the robot is in %q, want %s", places, want)
			}
		}
		// Lists of users do not contain the robot.
		if n := len(must(w.client.ListParticipants(w.as("boss"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws}))(t).GetParticipants()); n != 6 {
			t.Errorf("the workspace has %d participants, want 6", n)
		}
		if n := len(must(w.client.ListMembers(w.as("boss"), &platformv1.ListMembersRequest{OrgId: w.org}))(t).GetMembers()); n != 8 {
			t.Errorf("the organisation has %d members, want 8", n)
		}
		if n := len(must(w.client.ListAccounts(w.as("owner"), &platformv1.ListAccountsRequest{}))(t).GetUsers()); n != len(userNames()) {
			t.Errorf("there are %d users", n)
		}

		// One token is revoked, the other still works.
		spare := must(inside.create(inside.as(), &platformv1.RobotTokenSpec{Name: "spare", Scopes: []string{"runs"}}))(t)
		must(w.client.DeleteRobotToken(inside.as(), &platformv1.DeleteRobotTokenRequest{OrgId: w.org, WorkspaceId: &w.ws, RobotId: inside.id, TokenId: int64(spare.GetToken().GetId())}))(t)
		_, err = w.authorize(spare.GetAccessKey(), w.ws, "runs")
		wantError(t, "the revoked token", err, fault.Unauthenticated)
		list := must(w.client.ListRobotTokens(inside.as(), &platformv1.ListRobotTokensRequest{OrgId: w.org, WorkspaceId: &w.ws, RobotId: inside.id}))(t).GetTokens()
		if len(list) != 1 || list[0].GetName() != "cluster" || list[0].GetLastUsed() == nil || !list[0].GetExpires().AsTime().Equal(clock.now.Add(90*24*time.Hour)) {
			t.Errorf("the tokens are %v", list)
		}

		// The robot outlives the user who created it.
		wantError(t, "deleting the creator", w.service.DeleteUser(t.Context(), "admin"), nil)
		id, err := w.authorize(token, w.ws, "request")
		wantError(t, "the robot of a user who left", err, nil)

		bus.since()
		wantError(t, "deleting", inside.delete(w.as("boss")), nil)
		if bus.since() != 1 {
			t.Error("the deletion was not published")
		}
		_, err = w.authorize(token, w.ws, "request")
		wantError(t, "a token of a deleted robot", err, fault.Unauthenticated)
		_, err = password(w.client, id, "quay.io/app")
		wantError(t, "a login of a deleted robot", err, fault.Denied)
		wantError(t, "deleting twice", inside.delete(w.as("boss")), fault.NotFound)
		for _, want := range []struct{ action, actor, has string }{
			{"robot.create", "admin", "robot:lab/bench/looks"}, {"robot.create", "boss", "robot:lab/ci"},
			{"robot-token.create", "admin", "robot:lab/bench/ci"}, {"robot-token.delete", "admin", "robot:lab/bench/ci"},
			{"robot.delete", "boss", "robot:lab/bench/ci"}, {"credentials.read", "robot:lab/bench/ci", ""}, {"credentials.read", "robot:lab/ci", ""},
		} {
			if !slices.ContainsFunc(w.events(want.action), func(e *platformv1.AuditEvent) bool {
				return e.GetActor() == want.actor && strings.Contains(e.String(), want.has) && !strings.Contains(e.String(), token)
			}) {
				t.Errorf("no event %v in %v", want, w.events(want.action))
			}
		}
	})
}

// TestRobotChanges changes the role and the description of a robot, and checks that a token which
// exists already has the new role at its next call.
func TestRobotChanges(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		bus := &listener{}
		d, clock := deps(t, db), january()
		d.Bus, d.Log, d.Now = bus, testkit.Log(t), clock.Now
		w := newWorldWith(t, d, clock).withAdministrator()
		must(w.client.CreateCredentials(w.as("boss"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("team", "quay.io", "secret")}))(t)
		r, all := w.robot("admin", &w.ws, "ci", "launch"), w.robot("boss", nil, "ci", "launch")
		token, allToken := r.token("t"), all.token("t")
		rights := func(token, want string) {
			t.Helper()
			id, err := w.authorize(token, w.ws, "request")
			if err != nil {
				t.Fatal(err)
			}
			if secret, err := password(w.client, id, "quay.io/app"); secret != want || err != nil {
				t.Errorf("the robot gets the login %q, %v, want %q", secret, err, want)
			}
			_, err = w.client.CreateTrace(bearer(t.Context(), token), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"r"}`)})
			if (err == nil) != (want != "") {
				t.Errorf("reporting a run: %v", err)
			}
		}
		rights(token, "secret")
		bus.since()
		got := must(r.update(w.as("admin"), &platformv1.RobotChange{Role: new("view"), Description: new(" Reads runs ")}))(t)
		if got.GetRole() != "view" || got.GetDescription() != "Reads runs" || got.GetUserName() != "robot:lab/bench/ci" || int64(got.GetId()) != r.id {
			t.Errorf("the changed robot is %v", got)
		}
		if bus.since() != 1 {
			t.Error("the change was not published, so caches keep the logins")
		}
		rights(token, "")
		rights(allToken, "secret") // another robot with the same name
		if got := must(r.get(w.as("admin")))(t); got.GetRole() != "view" || got.GetDescription() != "Reads runs" || got.GetCreatedBy() != "admin" {
			t.Errorf("the robot is %v", got)
		}
		must(r.update(w.as("boss"), &platformv1.RobotChange{Role: new("launch")}))(t)
		rights(token, "secret")
		bus.since()
		if got := must(r.update(w.as("boss"), nil))(t); got.GetRole() != "launch" || got.GetDescription() != "Reads runs" || bus.since() != 0 {
			t.Errorf("after no change: %v", got)
		}
		must(all.update(w.as("boss"), &platformv1.RobotChange{Role: new("connect")}))(t)
		rights(allToken, "")
		changed := w.events("robot.update")
		if len(changed) != 3 {
			t.Fatalf("recorded are %v", changed)
		}
		if first := changed[2]; first.GetActor() != "admin" || first.GetSubject() != "robot:lab/bench/ci" ||
			first.GetBefore().GetFields()["role"].GetStringValue() != "launch" || first.GetAfter().GetFields()["role"].GetStringValue() != "view" ||
			first.GetAfter().GetFields()["description"].GetStringValue() != "Reads runs" {
			t.Errorf("recorded is %v", first)
		}

		for _, role := range []string{"", "maintain", "admin", "owner", "member", "x"} {
			_, err := r.update(w.as("boss"), &platformv1.RobotChange{Role: &role})
			wantError(t, fmt.Sprintf("the role %q", role), err, fault.Invalid)
		}
		for _, text := range []string{strings.Repeat("a", 1001), "a\x00b"} {
			_, err := r.update(w.as("boss"), &platformv1.RobotChange{Description: &text})
			wantError(t, "the description "+text[:3], err, fault.Invalid)
			_, err = w.client.CreateRobot(r.as(), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "x", Description: text}})
			wantError(t, "a robot with the description "+text[:3], err, fault.Invalid)
		}
		for _, who := range []string{"maintain", "launch", "view", "stranger"} {
			_, err := r.update(w.as(who), &platformv1.RobotChange{Role: new("view")})
			wantError(t, "changed by "+who, err, fault.Denied)
			_, err = r.get(w.as(who))
			wantError(t, "read by "+who, err, fault.Denied)
		}
		if _, err := r.update(bearer(t.Context(), token), &platformv1.RobotChange{Role: new("launch")}); !lacksScope(err) {
			t.Errorf("a robot changes itself: %v", err)
		}
		_, err := all.update(w.as("admin"), &platformv1.RobotChange{Role: new("view")})
		wantError(t, "a robot of the organisation, by an admin of a workspace", err, fault.Denied)
	})
}

// TestTokenWithScopesRaisesNoRobot raises the role of robots with tokens that lack scopes which the tokens of
// the robots have, or may get. Such tokens can still lower the role.
func TestTokenWithScopesRaisesNoRobot(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		inside, all := w.robot("admin", &w.ws, "ci", "view"), w.robot("boss", nil, "ci", "connect")
		token := inside.token("cluster")
		for name, c := range map[string]struct {
			robot     robot
			workspace int64
			scopes    []string
		}{
			"only-admin":         {inside, 0, []string{"admin"}},
			"of-the-workspace":   {inside, w.ws, []string{"admin"}},
			"no-credentials":     {inside, 0, []string{"admin", "pull", "request", "build", "freeze", "runs"}},
			"of-an-organisation": {all, 0, []string{"admin"}},
			"one-more":           {all, 0, []string{"admin", "credentials:read"}},
		} {
			ctx := w.scoped(c.robot.by, name, c.workspace, c.scopes...)
			_, err := c.robot.update(ctx, &platformv1.RobotChange{Role: new("launch")})
			wantError(t, name, err, fault.Denied)
			if !lacksScope(err) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := c.robot.update(ctx, &platformv1.RobotChange{Description: new(name)}); err != nil {
				t.Errorf("%s, the description: %v", name, err)
			}
		}
		if _, err := inside.update(w.scoped("admin", "again", 0, "admin"), &platformv1.RobotChange{Role: new("connect")}); !lacksScope(err) {
			t.Errorf("from view to connect: %v", err)
		}
		must(w.client.CreateCredentials(w.as("boss"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("team", "quay.io", "s")}))(t)
		if secret, err := password(w.client, must(w.authorize(token, 0, "pull"))(t), "quay.io/app"); err != nil || secret != "" {
			t.Errorf("the robot's token has the login %q, %v", secret, err)
		}
		everything := append(robotScopes(), "admin")
		for i, ctx := range []context.Context{
			inside.as(), w.scoped("admin", "everything", 0, everything...), w.scoped("admin", "everything-there", w.ws, everything...), w.scoped("admin", "workspace", w.ws),
		} {
			if r, err := inside.update(ctx, &platformv1.RobotChange{Role: new("launch")}); err != nil || r.GetRole() != "launch" {
				t.Errorf("token %d: %v, %v", i, r, err)
			}
			// A token with the scope admin may lower the role, and repeat it.
			lower := w.scoped("admin", fmt.Sprint("lower-", i), 0, "admin")
			for _, role := range []string{"launch", "connect", "connect", "view"} {
				if r, err := inside.update(lower, &platformv1.RobotChange{Role: &role}); err != nil || r.GetRole() != role {
					t.Errorf("to %s: %v, %v", role, r, err)
				}
			}
		}
	})
}

// TestRobotMakesEveryCall makes every call with a robot's token of each scope, and every call of
// another workspace with all scopes.
func TestRobotMakesEveryCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	need := map[string]rpc.Scope{}
	for scope, calls := range scopesOfCalls() {
		for _, call := range calls {
			need[call] = scope
		}
	}
	r, elsewhere := w.robot("boss", &w.ws, "ci", "launch"), w.robot("boss", w.newWorkspace("other"), "ci", "launch")
	all := w.robot("boss", nil, "ci", "launch")
	for _, scope := range robotScopes() {
		token := bearer(t.Context(), r.token(scope, scope))
		for _, call := range callsWithToken() {
			name := call[strings.LastIndexByte(call, '/')+1:]
			err := w.client.Invoke(token, call, &emptypb.Empty{}, &emptypb.Empty{})
			if may := need[name] == rpc.ScopeAny || string(need[name]) == scope; lacksScope(err) == may {
				t.Errorf("%s with the scope %s: allowed is %t, but got %v", name, scope, may, err)
			}
		}
	}
	for _, c := range calls(w) {
		// Neither the robot of another workspace nor one without the scope admin may do anything here.
		if err := c.call(bearer(t.Context(), elsewhere.token(c.name))); (err == nil) != (c.name == "user info") {
			t.Errorf("%s from another workspace: %v", c.name, err)
		} else if err != nil {
			wantError(t, c.name+" from another workspace", err, fault.Denied)
		}
		if slices.Contains([]string{"boss", "owner", "admin", "maintain"}, c.least) {
			wantError(t, c.name+" of the organisation's robot", c.call(bearer(t.Context(), all.token(c.name))), fault.Denied)
		}
	}
}

// TestRobotGainsNothing tries to give a robot more rights, or to turn it into a user.
func TestRobotGainsNothing(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d, clock := deps(t, db), january()
		d.Now = clock.Now
		w := newWorldWith(t, d, clock)
		d.MaxTokenLife = 30 * 24 * time.Hour
		w.service, w.client = serveWith(t, d)
		other := w.newWorkspace("other")
		r, all := w.robot("admin", &w.ws, "ci", "launch"), w.robot("boss", nil, "all", "view")
		for name, spec := range map[string]*platformv1.RobotTokenSpec{
			"no scopes":       {Name: "a"},
			"the scope admin": {Name: "b", Scopes: []string{"pull", "admin"}},
			"any":             {Name: "c", Scopes: []string{"any"}},
			"an empty scope":  {Name: "d", Scopes: []string{""}},
			"never":           {Name: "e", Scopes: []string{"pull"}, Expires: "never"},
			"too long a life": {Name: "f", Scopes: []string{"pull"}, Expires: clock.now.Add(31 * 24 * time.Hour).Format(time.RFC3339)},
			"no name":         {Scopes: []string{"pull"}},
			"nothing":         nil,
		} {
			_, err := r.create(r.as(), spec)
			wantError(t, name, err, fault.Invalid)
		}
		for _, name := range []string{"", "CI", "a b", "a/b", "robot:a", "сi", "ci\u0301", "ｃｉ", "a--b", "a\x00b", "admin@example.org", strings.Repeat("a", 41)} {
			_, err := w.client.CreateRobot(r.as(), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: name}})
			wantError(t, fmt.Sprintf("the name %q", name), err, fault.Invalid)
		}
		for _, role := range []string{"maintain", "admin", "owner", "member", "x"} {
			_, err := w.client.CreateRobot(r.as(), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "x", Role: role}})
			wantError(t, "the role "+role, err, fault.Invalid)
		}

		// A token that a restricted token creates has at most the rights and the lifetime of that
		// token, and the same workspace.
		admin := w.scoped("admin", "admin", w.ws, "admin", "pull")
		_, err := r.create(admin, &platformv1.RobotTokenSpec{Name: "child", Scopes: []string{"pull", "build"}})
		if !lacksScope(err) {
			t.Errorf("a child with more scopes: %v", err)
		}
		must(r.create(admin, &platformv1.RobotTokenSpec{Name: "child", Scopes: []string{"pull"}}))(t)
		boss := w.scoped("boss", "boss", w.ws, "admin", "pull")
		if _, err = all.create(boss, &platformv1.RobotTokenSpec{Name: "child", Scopes: []string{"pull"}}); !lacksScope(err) {
			t.Errorf("a token of one workspace for the robot of the organisation: %v", err)
		}

		// The robot is only found in the organisation or workspace that owns it.
		for name, at := range map[string]robot{
			"at the organisation":  {w, "boss", nil, r.id},
			"at another workspace": {w, "boss", other, r.id},
			"of the organisation":  {w, "admin", &w.ws, all.id},
			"a user as a robot":    {w, "boss", nil, w.ids["view"]},
			"of a negative id":     {w, "boss", nil, -1},
			"a personal workspace": {w, "admin", &w.ws, w.ids["admin"]},
		} {
			_, err := at.create(at.as(), &platformv1.RobotTokenSpec{Name: "x", Scopes: []string{"pull"}})
			wantError(t, name, err, fault.NotFound)
			wantError(t, "deleting "+name, at.delete(at.as()), fault.NotFound)
			_, err = at.get(at.as())
			wantError(t, "reading "+name, err, fault.NotFound)
			_, err = at.update(at.as(), &platformv1.RobotChange{Role: new("view")})
			wantError(t, "changing "+name, err, fault.NotFound)
			_, err = w.client.ListRobotTokens(at.as(), &platformv1.ListRobotTokensRequest{OrgId: w.org, WorkspaceId: at.workspace, RobotId: at.id})
			wantError(t, "listing "+name, err, fault.NotFound)
		}
		_, err = w.client.ListRobots(w.as("boss"), &platformv1.ListRobotsRequest{OrgId: 5, WorkspaceId: &w.ws})
		wantError(t, "another organisation's path", err, fault.Denied)
		_, err = w.client.ListRobots(w.as("boss"), &platformv1.ListRobotsRequest{})
		wantError(t, "no organisation", err, fault.Denied)
		_, err = w.client.ListRobots(w.as("boss"), &platformv1.ListRobotsRequest{WorkspaceId: &w.ws})
		wantError(t, "a workspace without its organisation", err, fault.Denied)

		// It has no session, and no calls for users find it.
		token := r.token("t")
		_, err = w.client.CreateCode(t.Context(), &platformv1.CreateCodeRequest{
			AccessToken: token, ClientId: "nf", RedirectUri: "http://127.0.0.1:1/", CodeChallenge: strings.Repeat("a", 43), CodeChallengeMethod: "S256",
		})
		wantError(t, "a code", err, fault.Denied)
		device := must(w.client.BeginDeviceSignIn(t.Context(), &platformv1.BeginDeviceSignInRequest{ClientId: "nf"}))(t)
		_, err = w.client.DescribeDevice(t.Context(), &platformv1.DescribeDeviceRequest{AccessToken: token, UserCode: device.GetUserCode()})
		wantError(t, "a device", err, fault.Denied)
		_, err = w.client.IssueTokens(t.Context(), &platformv1.IssueTokensRequest{GrantType: "refresh_token", RefreshToken: token})
		wantError(t, "a refresh token", err, fault.Unauthenticated)
		for _, name := range []string{"robot:lab/bench/ci", "ci", fmt.Sprint(r.id)} {
			_, err = w.client.AddMember(w.as("boss"), &platformv1.AddMemberRequest{OrgId: w.org, Member: &platformv1.MemberSpec{User: name}})
			wantError(t, "as a member", err, fault.Invalid)
			_, err = w.client.AddParticipant(w.as("boss"), &platformv1.AddParticipantRequest{
				OrgId: w.org, Id: w.ws, Participant: &platformv1.ParticipantSpec{UserNameOrEmail: name},
			})
			wantError(t, "as a participant", err, fault.Invalid)
			_, err = w.service.CreateTokenFor(t.Context(), name, identity.NewToken{Name: "x", Scopes: []string{"pull"}})
			wantError(t, "a token by the operator", err, fault.Invalid)
			wantError(t, "as an administrator", w.service.SetAdministrator(t.Context(), name, true), fault.Invalid)
			_, err = w.service.CreateUser(t.Context(), identity.Account{Name: "robot:lab/bench/" + name, Email: "x@example.org"})
			wantError(t, "a user with its name", err, fault.Invalid)
		}
		// Neither robot has a personal workspace.
		for name, token := range map[string]string{"of the organisation": all.token("t"), "of the workspace": token} {
			list, err := w.client.ListCredentials(bearer(t.Context(), token), &platformv1.ListCredentialsRequest{})
			if name == "of the organisation" {
				wantError(t, "the personal workspace", err, fault.Denied)
			} else if err != nil || list.GetCredentials() != nil {
				t.Errorf("%s: %v, %v", name, list, err)
			}
		}
		_, err = w.client.CreateTrace(bearer(t.Context(), all.token("view")), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte("{}")})
		wantError(t, "the role view reports a run", err, fault.Denied)
	})
}

// TestRobotsOfAdministrators checks that administrators of the server can list and delete the robots
// of organisations that they are not in, and nothing else.
func TestRobotsOfAdministrators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	wantError(t, "granting", w.service.SetAdministrator(t.Context(), "stranger", true), nil)
	all := w.robot("boss", nil, "ci", "launch")
	all.token("t")
	found, err := w.client.ListRobots(w.as("stranger"), &platformv1.ListRobotsRequest{OrgId: w.org})
	if err != nil || len(found.GetRobots()) != 1 {
		t.Errorf("the robots: %v, %v", found, err)
	}
	_, err = w.client.CreateRobotToken(w.as("stranger"), &platformv1.CreateRobotTokenRequest{OrgId: w.org, RobotId: all.id, Token: &platformv1.RobotTokenSpec{Name: "mine", Scopes: []string{"pull"}}})
	wantError(t, "a token, which could use the logins of the organisation", err, fault.Denied)
	_, err = w.client.CreateRobot(w.as("stranger"), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "mine"}})
	wantError(t, "a robot", err, fault.Denied)
	_, err = all.update(w.as("stranger"), &platformv1.RobotChange{Description: new("mine")})
	wantError(t, "changing a robot", err, fault.Denied)
	if got, err := all.get(w.as("stranger")); err != nil || got.GetName() != "ci" {
		t.Errorf("the robot: %v, %v", got, err)
	}
	tokens := must(w.client.ListRobotTokens(w.as("stranger"), &platformv1.ListRobotTokensRequest{OrgId: w.org, RobotId: all.id}))(t).GetTokens()
	if len(tokens) != 1 {
		t.Fatalf("the robot's tokens: %v", tokens)
	}
	_, err = w.client.DeleteRobotToken(w.as("stranger"), &platformv1.DeleteRobotTokenRequest{OrgId: w.org, RobotId: all.id, TokenId: int64(tokens[0].GetId())})
	wantError(t, "deleting its token", err, nil)
	wantError(t, "deleting", all.delete(w.as("stranger")), nil)
	_, err = w.client.ListParticipants(w.as("stranger"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws})
	wantError(t, "the participants", err, fault.Denied)
	for name, at := range map[string]*platformv1.ListRobotsRequest{
		"no organisation": {}, "an unknown organisation": {OrgId: 5}, "another organisation": {OrgId: 5, WorkspaceId: &w.ws}, "an unknown workspace": {OrgId: w.org, WorkspaceId: new(int64(5))},
	} {
		_, err := w.client.ListRobots(w.as("stranger"), at)
		wantError(t, name, err, fault.Denied)
	}
	_, err = w.client.ListRobots(w.scoped("stranger", "runs", 0, "runs"), &platformv1.ListRobotsRequest{OrgId: w.org})
	wantError(t, "without the scope admin", err, fault.Denied)
}

// TestRobotsEndWithTheirOwner deletes the owners of robots.
func TestRobotsEndWithTheirOwner(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		wantError(t, "granting", w.service.SetAdministrator(t.Context(), "owner", true), nil)
		inside, all := w.robot("admin", &w.ws, "ci", "launch"), w.robot("boss", nil, "ci", "launch")
		token, allToken := inside.token("t"), all.token("t")
		must(w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: w.ws}))(t)
		_, err := w.authorize(token, 0, "pull")
		wantError(t, "after its workspace", err, fault.Unauthenticated)
		_, err = w.authorize(allToken, 0, "pull")
		wantError(t, "the robot of the organisation", err, nil)
		must(w.client.DeleteOrganization(w.as("boss"), &platformv1.DeleteOrganizationRequest{OrgId: w.org}))(t)
		_, err = w.authorize(allToken, 0, "pull")
		wantError(t, "after its organisation", err, fault.Unauthenticated)
		var deleted []string
		for _, e := range w.events("robot.delete") {
			deleted = append(deleted, e.GetActor()+" "+e.GetSubject())
		}
		if !slices.Equal(deleted, []string{"boss robot:lab/ci", "boss robot:lab/bench/ci"}) {
			t.Errorf("recorded are %q", deleted)
		}
		for _, table := range []string{"platform_robots", "platform_robot_tokens"} {
			if has, err := db.HasRows(t.Context(), table); has || err != nil {
				t.Errorf("%s has rows: %t, %v", table, has, err)
			}
		}
	})
}

// TestRobotsAreBounded creates as many robots and tokens as possible, and one more.
func TestRobotsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	var r robot
	for i := range limits.RobotsPerOwner {
		r = w.robot("boss", &w.ws, fmt.Sprint("r", i), "")
	}
	_, err := w.client.CreateRobot(w.as("boss"), &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "more"}})
	wantError(t, "one more robot", err, fault.Invalid)
	w.robot("boss", nil, "more", "")
	for i := range limits.TokensPerRobot {
		r.token(fmt.Sprint(i), "pull")
	}
	_, err = r.create(r.as(), &platformv1.RobotTokenSpec{Name: "more", Scopes: []string{"pull"}})
	wantError(t, "one more token", err, fault.Invalid)
	list := must(w.client.ListRobots(w.as("boss"), &platformv1.ListRobotsRequest{OrgId: w.org, WorkspaceId: &w.ws, Max: new(int32(3)), Offset: new(int32(98))}))(t)
	if len(list.GetRobots()) != 2 {
		t.Errorf("the page has %d robots", len(list.GetRobots()))
	}
}

// TestPreviousReleaseKnowsNoRobots checks that the tables that the previous release reads have no row
// of a robot, so that no call of that release can use, change or sign in one.
func TestPreviousReleaseKnowsNoRobots(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		count := func() (n [4]int) {
			for i, table := range []string{"platform_users", "platform_tokens", "platform_members", "platform_participants"} {
				if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n[i]); err != nil {
					t.Fatal(err)
				}
			}
			return n
		}
		before := count()
		w.robot("boss", &w.ws, "ci", "launch").token("t")
		w.robot("boss", nil, "ci", "launch").token("t")
		if after := count(); after != before {
			t.Errorf("the rows of people are %v, and were %v", after, before)
		}
	})
}
