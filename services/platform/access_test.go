package platform_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform"
)

// calls returns every call that has a rule, with the user of userNames who has the lowest role
// that may make it; "anyone" means any user. The calls name records that do not exist, so that
// they change nothing.
func calls(w *world) []struct {
	name, least string
	call        func(context.Context) error
} {
	c, o, ws := w.client, w.org, &w.ws
	spec := &platformv1.CredentialsBody{Credentials: &platformv1.CredentialsSpec{}}
	run, body := "none", []byte("{}")
	return []struct {
		name, least string
		call        func(context.Context) error
	}{
		{"user info", "anyone", func(ctx context.Context) error {
			_, err := c.GetUserInfo(ctx, &platformv1.GetUserInfoRequest{})
			return err
		}},
		{"tokens", "anyone", func(ctx context.Context) error {
			_, err := c.ListTokens(ctx, &platformv1.ListTokensRequest{})
			return err
		}},
		{"create token", "anyone", func(ctx context.Context) error {
			_, err := c.CreateToken(ctx, &platformv1.CreateTokenRequest{})
			return err
		}},
		{"delete token", "anyone", func(ctx context.Context) error {
			_, err := c.DeleteToken(ctx, &platformv1.DeleteTokenRequest{TokenId: 1})
			return err
		}},
		{"orgs", "anyone", func(ctx context.Context) error {
			_, err := c.ListOrganizations(ctx, &platformv1.ListOrganizationsRequest{})
			return err
		}},
		{"create org", "anyone", func(ctx context.Context) error {
			_, err := c.CreateOrganization(ctx, &platformv1.CreateOrganizationRequest{})
			return err
		}},
		{"validate org", "anyone", func(ctx context.Context) error {
			_, err := c.ValidateOrganizationName(ctx, &platformv1.ValidateOrganizationNameRequest{})
			return err
		}},

		{"org", "member", func(ctx context.Context) error {
			_, err := c.DescribeOrganization(ctx, &platformv1.DescribeOrganizationRequest{OrgId: o})
			return err
		}},
		{"members", "member", func(ctx context.Context) error {
			_, err := c.ListMembers(ctx, &platformv1.ListMembersRequest{OrgId: o})
			return err
		}},
		{"workspaces", "member", func(ctx context.Context) error {
			_, err := c.ListWorkspaces(ctx, &platformv1.ListWorkspacesRequest{OrgId: o})
			return err
		}},
		{"validate workspace", "member", func(ctx context.Context) error {
			_, err := c.ValidateWorkspaceName(ctx, &platformv1.ValidateWorkspaceNameRequest{OrgId: o})
			return err
		}},
		{"update org", "boss", func(ctx context.Context) error {
			_, err := c.UpdateOrganization(ctx, &platformv1.UpdateOrganizationRequest{OrgId: o, Organization: &platformv1.OrganizationSpec{Name: new("!")}})
			return err
		}},
		{"delete org", "boss", func(ctx context.Context) error {
			_, err := c.DeleteOrganization(ctx, &platformv1.DeleteOrganizationRequest{OrgId: o})
			return err
		}},
		{"add member", "boss", func(ctx context.Context) error {
			_, err := c.AddMember(ctx, &platformv1.AddMemberRequest{OrgId: o})
			return err
		}},
		{"member role", "boss", func(ctx context.Context) error {
			_, err := c.UpdateMemberRole(ctx, &platformv1.UpdateMemberRoleRequest{OrgId: o})
			return err
		}},
		{"delete member", "boss", func(ctx context.Context) error {
			_, err := c.DeleteMember(ctx, &platformv1.DeleteMemberRequest{OrgId: o})
			return err
		}},
		{"create workspace", "boss", func(ctx context.Context) error {
			_, err := c.CreateWorkspace(ctx, &platformv1.CreateWorkspaceRequest{OrgId: o})
			return err
		}},

		{"workspace", "view", func(ctx context.Context) error {
			_, err := c.DescribeWorkspace(ctx, &platformv1.DescribeWorkspaceRequest{OrgId: o, Id: *ws})
			return err
		}},
		{"participants", "view", func(ctx context.Context) error {
			_, err := c.ListParticipants(ctx, &platformv1.ListParticipantsRequest{OrgId: o, Id: *ws})
			return err
		}},
		{"compute envs", "view", func(ctx context.Context) error {
			_, err := c.ListComputeEnvs(ctx, &platformv1.ListComputeEnvsRequest{WorkspaceId: ws})
			return err
		}},
		{"update workspace", "admin", func(ctx context.Context) error {
			_, err := c.UpdateWorkspace(ctx, &platformv1.UpdateWorkspaceRequest{OrgId: o, Id: *ws, Workspace: &platformv1.WorkspaceSpec{Name: new("!")}})
			return err
		}},
		{"add participant", "admin", func(ctx context.Context) error {
			_, err := c.AddParticipant(ctx, &platformv1.AddParticipantRequest{OrgId: o, Id: *ws})
			return err
		}},
		{"participant role", "admin", func(ctx context.Context) error {
			_, err := c.UpdateParticipantRole(ctx, &platformv1.UpdateParticipantRoleRequest{OrgId: o, Id: *ws})
			return err
		}},
		{"delete participant", "admin", func(ctx context.Context) error {
			_, err := c.DeleteParticipant(ctx, &platformv1.DeleteParticipantRequest{OrgId: o, Id: *ws})
			return err
		}},

		{"credentials", "view", func(ctx context.Context) error {
			_, err := c.ListCredentials(ctx, &platformv1.ListCredentialsRequest{WorkspaceId: ws})
			return err
		}},
		{"a credential", "view", func(ctx context.Context) error {
			_, err := c.DescribeCredentials(ctx, &platformv1.DescribeCredentialsRequest{WorkspaceId: ws})
			return err
		}},
		{"validate credentials", "view", func(ctx context.Context) error {
			_, err := c.ValidateCredentialsName(ctx, &platformv1.ValidateCredentialsNameRequest{WorkspaceId: ws})
			return err
		}},
		{"keys", "launch", func(ctx context.Context) error {
			_, err := c.GetCredentialsKeys(ctx, &platformv1.GetCredentialsKeysRequest{WorkspaceId: ws})
			return err
		}},
		{"create credentials", "maintain", func(ctx context.Context) error {
			_, err := c.CreateCredentials(ctx, &platformv1.CreateCredentialsRequest{WorkspaceId: ws, Body: spec})
			return err
		}},
		{"update credentials", "maintain", func(ctx context.Context) error {
			_, err := c.UpdateCredentials(ctx, &platformv1.UpdateCredentialsRequest{WorkspaceId: ws, Body: spec})
			return err
		}},
		{"delete credentials", "maintain", func(ctx context.Context) error {
			_, err := c.DeleteCredentials(ctx, &platformv1.DeleteCredentialsRequest{WorkspaceId: ws})
			return err
		}},

		{"runs", "view", func(ctx context.Context) error {
			_, err := c.ListWorkflows(ctx, &platformv1.ListWorkflowsRequest{WorkspaceId: ws})
			return err
		}},
		{"a run", "view", func(ctx context.Context) error {
			_, err := c.DescribeWorkflow(ctx, &platformv1.DescribeWorkflowRequest{WorkspaceId: ws})
			return err
		}},
		{"progress", "view", func(ctx context.Context) error {
			_, err := c.GetWorkflowProgress(ctx, &platformv1.GetWorkflowProgressRequest{WorkspaceId: ws})
			return err
		}},
		{"metrics", "view", func(ctx context.Context) error {
			_, err := c.GetWorkflowMetrics(ctx, &platformv1.GetWorkflowMetricsRequest{WorkspaceId: ws})
			return err
		}},
		{"launch record", "view", func(ctx context.Context) error {
			_, err := c.GetWorkflowLaunch(ctx, &platformv1.GetWorkflowLaunchRequest{WorkspaceId: ws})
			return err
		}},
		{"tasks", "view", func(ctx context.Context) error {
			_, err := c.ListTasks(ctx, &platformv1.ListTasksRequest{WorkspaceId: ws})
			return err
		}},
		{"a task", "view", func(ctx context.Context) error {
			_, err := c.DescribeTask(ctx, &platformv1.DescribeTaskRequest{WorkspaceId: ws})
			return err
		}},
		{"validate run", "view", func(ctx context.Context) error {
			_, err := c.ValidateWorkflowName(ctx, &platformv1.ValidateWorkflowNameRequest{WorkspaceId: ws})
			return err
		}},
		{"update run", "launch", func(ctx context.Context) error {
			_, err := c.UpdateWorkflow(ctx, &platformv1.UpdateWorkflowRequest{WorkspaceId: ws})
			return err
		}},
		{"delete run", "launch", func(ctx context.Context) error {
			_, err := c.DeleteWorkflow(ctx, &platformv1.DeleteWorkflowRequest{WorkspaceId: ws})
			return err
		}},
		{"delete runs", "launch", func(ctx context.Context) error {
			_, err := c.DeleteWorkflows(ctx, &platformv1.DeleteWorkflowsRequest{WorkspaceId: ws})
			return err
		}},
		{"cancel", "launch", func(ctx context.Context) error {
			_, err := c.CancelWorkflow(ctx, &platformv1.CancelWorkflowRequest{WorkspaceId: ws})
			return err
		}},
		{"trace create", "launch", func(ctx context.Context) error {
			_, err := c.CreateTrace(ctx, &platformv1.CreateTraceRequest{WorkspaceId: ws})
			return err
		}},
		{"trace begin", "launch", func(ctx context.Context) error {
			_, err := c.BeginTrace(ctx, &platformv1.BeginTraceRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		}},
		{"trace progress", "launch", func(ctx context.Context) error {
			_, err := c.RecordProgress(ctx, &platformv1.RecordProgressRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		}},
		{"trace heartbeat", "launch", func(ctx context.Context) error {
			_, err := c.RecordHeartbeat(ctx, &platformv1.RecordHeartbeatRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		}},
		{"robots, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.ListRobots(ctx, &platformv1.ListRobotsRequest{OrgId: o})
			return err
		}},
		{"own limits", "anyone", func(ctx context.Context) error {
			_, err := c.ListOwnLimits(ctx, &platformv1.ListOwnLimitsRequest{})
			return err
		}},
		{"limits of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.ListOrganizationLimits(ctx, &platformv1.ListOrganizationLimitsRequest{OrgId: o})
			return err
		}},
		{"limits of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.ListOrganizationLimits(ctx, &platformv1.ListOrganizationLimitsRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"create robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.CreateRobot(ctx, &platformv1.CreateRobotRequest{OrgId: o})
			return err
		}},
		{"robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.DescribeRobot(ctx, &platformv1.DescribeRobotRequest{OrgId: o})
			return err
		}},
		{"update robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.UpdateRobot(ctx, &platformv1.UpdateRobotRequest{OrgId: o})
			return err
		}},
		{"delete robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.DeleteRobot(ctx, &platformv1.DeleteRobotRequest{OrgId: o})
			return err
		}},
		{"tokens of a robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.ListRobotTokens(ctx, &platformv1.ListRobotTokensRequest{OrgId: o})
			return err
		}},
		{"create token of a robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.CreateRobotToken(ctx, &platformv1.CreateRobotTokenRequest{OrgId: o})
			return err
		}},
		{"delete token of a robot, of the organisation", "boss", func(ctx context.Context) error {
			_, err := c.DeleteRobotToken(ctx, &platformv1.DeleteRobotTokenRequest{OrgId: o})
			return err
		}},
		{"robots, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.ListRobots(ctx, &platformv1.ListRobotsRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"create robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.CreateRobot(ctx, &platformv1.CreateRobotRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.DescribeRobot(ctx, &platformv1.DescribeRobotRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"update robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.UpdateRobot(ctx, &platformv1.UpdateRobotRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"delete robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.DeleteRobot(ctx, &platformv1.DeleteRobotRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"tokens of a robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.ListRobotTokens(ctx, &platformv1.ListRobotTokensRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"create token of a robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.CreateRobotToken(ctx, &platformv1.CreateRobotTokenRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"delete token of a robot, of the workspace", "admin", func(ctx context.Context) error {
			_, err := c.DeleteRobotToken(ctx, &platformv1.DeleteRobotTokenRequest{OrgId: o, WorkspaceId: ws})
			return err
		}},
		{"trace complete", "launch", func(ctx context.Context) error {
			_, err := c.CompleteTrace(ctx, &platformv1.CompleteTraceRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		}},
	}
}

// TestRoles makes each call with each role.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	for _, c := range calls(w) {
		t.Run(c.name, func(t *testing.T) {
			for i, who := range userNames() {
				may := c.least == "anyone" || i <= slices.Index(userNames(), c.least)
				if err := c.call(w.as(who)); errors.Is(err, fault.Denied) == may || errors.Is(err, fault.Unauthenticated) {
					t.Errorf("%s: allowed is %v, but got %v", who, may, err)
				}
			}
			wantError(t, "anonymous", c.call(t.Context()), fault.Unauthenticated)
			wantError(t, "a wrong token", c.call(bearer(t.Context(), "eyJ0aWQiOjF9LjAw")), fault.Unauthenticated)
		})
	}
}

// TestEveryCallHasARule checks that each method of the services has exactly one rule, and that
// its request has a scope if the rule requires a role.
func TestEveryCallHasARule(t *testing.T) {
	t.Parallel()
	listed := platform.Requirements()
	for _, m := range methods() {
		call := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
		if listed[call] != 1 {
			t.Errorf("%s has %d rules, want 1", m.Name(), listed[call])
		}
		delete(listed, call)
		req, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		if !platform.HasScope(call, req.New().Interface()) {
			t.Errorf("%s requires a role, but its request has no scope", m.Name())
		}
	}
	for call := range listed {
		t.Errorf("there is a rule for %s, which does not exist", call)
	}
}

// methods returns the methods of all services of the platform.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("slipway.platform.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				all = append(all, f.Services().Get(i).Methods().Get(j))
			}
		}
		return true
	})
	return all
}

func TestSharedWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	see := func(who string) error {
		_, err := w.client.DescribeWorkspace(w.as(who), &platformv1.DescribeWorkspaceRequest{OrgId: w.org, Id: w.ws})
		return err
	}
	wantError(t, "a member before", see("member"), fault.Denied)
	must(w.client.UpdateWorkspace(w.as("admin"), &platformv1.UpdateWorkspaceRequest{
		OrgId: w.org, Id: w.ws, Workspace: &platformv1.WorkspaceSpec{Visibility: new("SHARED")},
	}))(t)
	wantError(t, "a member", see("member"), nil)
	wantError(t, "a stranger", see("stranger"), fault.Denied)
	_, err := w.client.CreateTrace(w.as("member"), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte("{}")})
	wantError(t, "a member who only views", err, fault.Denied)
}

// TestAnotherWorkspace checks that ids of one workspace are unknown in another.
func TestAnotherWorkspace(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("a", "quay.io", "pw")}))(t).GetCredentialsId()
		run := must(w.client.CreateTrace(w.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		for name, call := range map[string]func() error{
			"credentials in the personal workspace": func() error {
				_, err := w.client.DescribeCredentials(w.as("maintain"), &platformv1.DescribeCredentialsRequest{CredentialsId: id})
				return err
			},
			"delete them there": func() error {
				_, err := w.client.DeleteCredentials(w.as("maintain"), &platformv1.DeleteCredentialsRequest{CredentialsId: id})
				return err
			},
			"a run in the personal workspace": func() error {
				_, err := w.client.DescribeWorkflow(w.as("launch"), &platformv1.DescribeWorkflowRequest{WorkflowId: run})
				return err
			},
			"a report there": func() error {
				_, err := w.client.RecordProgress(w.as("launch"), &platformv1.RecordProgressRequest{WorkflowId: run, Body: []byte("{}")})
				return err
			},
			"a heartbeat there": func() error {
				_, err := w.client.RecordHeartbeat(w.as("launch"), &platformv1.RecordHeartbeatRequest{WorkflowId: run, Body: []byte("{}")})
				return err
			},
		} {
			wantError(t, name, call(), fault.NotFound)
		}
		_, err := w.client.RecordProgress(w.as("admin"), &platformv1.RecordProgressRequest{WorkspaceId: &w.ws, WorkflowId: run, Body: []byte("{}")})
		wantError(t, "another's report", err, fault.Denied)
		_, err = w.client.DescribeWorkspace(w.as("boss"), &platformv1.DescribeWorkspaceRequest{OrgId: 5, Id: w.ws})
		wantError(t, "another organisation's path", err, fault.Denied)
		_, err = w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{})
		wantError(t, "no workspace at all", err, fault.Denied)
		_, err = w.client.DeleteWorkspace(w.as("boss"), &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: w.ws})
		if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "credentials or runs") {
			t.Errorf("a workspace in use: %v", err)
		}
	})
}
