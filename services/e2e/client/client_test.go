// Package client_test calls a running server with clients that are generated from its OpenAPI
// documents, to check that they compile and decode the responses. The end-to-end test
// TestGeneratedClients generates the clients and runs this package. SERVER is the URL, TOKEN an
// administrator's access token, IMAGE a private image with two platforms; REGISTRY, USERNAME
// and PASSWORD are its login.
package client_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"slipway.dev/client/container"
	"slipway.dev/client/platform"
)

func TestServer(t *testing.T) {
	server := os.Getenv("SERVER")
	token := createAccount(t, server+"/api", os.Getenv("TOKEN"))
	requestContainer(t, server, token)
	reportRun(t, server+"/api", token)
}

// is checks the status of a response that a generated client has decoded.
func is(t *testing.T, what string, err error, status, want int, body []byte) {
	t.Helper()
	if err != nil || status != want {
		t.Fatalf("%s: %d %s, %v; want %d", what, status, body, err, want)
	}
}

func bearer(token string) func(context.Context, *http.Request) error {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

// pull reads the manifest of an image name.
func pull(t *testing.T, name string) {
	t.Helper()
	host, rest, _ := strings.Cut(name, "/")
	repository, tag, _ := strings.Cut(rest, ":")
	resp, err := http.Get("http://" + host + "/v2/" + repository + "/manifests/" + tag)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: its manifest is %s", name, resp.Status)
	}
}

// createAccount creates a token and, with it, an organisation, a workspace and
// credentials; it returns the token.
func createAccount(t *testing.T, server, admins string) string {
	t.Helper()
	ctx := t.Context()
	admin, err := platform.NewClientWithResponses(server, platform.WithRequestEditorFn(bearer(admins)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := admin.GetServiceInfoWithResponse(ctx)
	is(t, "service info", err, info.StatusCode(), 200, info.Body)
	made, err := admin.CreateTokenWithResponse(ctx, platform.TokenSpec{Name: "généré"})
	is(t, "a token", err, made.StatusCode(), 200, made.Body)
	twice, err := admin.CreateTokenWithResponse(ctx, platform.TokenSpec{Name: "généré"})
	is(t, "the same token", err, twice.StatusCode(), 409, twice.Body)
	if twice.JSON409.Message == "" {
		t.Error("a conflict has no message")
	}

	c, err := platform.NewClientWithResponses(server, platform.WithRequestEditorFn(bearer(made.JSON200.AccessKey)))
	if err != nil {
		t.Fatal(err)
	}
	me, err := c.GetUserInfoWithResponse(ctx)
	is(t, "who", err, me.StatusCode(), 200, me.Body)
	org, err := c.CreateOrganizationWithResponse(ctx, platform.CreateOrganizationBody{Organization: platform.NewOrganizationSpec{Name: "lab", FullName: new("The Lab")}})
	is(t, "an organisation", err, org.StatusCode(), 200, org.Body)
	space, err := c.CreateWorkspaceWithResponse(ctx, org.JSON200.Organization.OrgID, platform.CreateWorkspaceBody{Workspace: platform.NewWorkspaceSpec{Name: "bench", FullName: new("Bench")}})
	is(t, "a workspace", err, space.StatusCode(), 200, space.Body)
	where, err := c.ListUserWorkspacesWithResponse(ctx, me.JSON200.User.ID, nil)
	is(t, "workspaces", err, where.StatusCode(), 200, where.Body)
	if list := where.JSON200.OrgsAndWorkspaces; len(list) < 2 || list[len(list)-1].WorkspaceID == nil || *list[len(list)-1].WorkspaceID != space.JSON200.Workspace.ID {
		t.Errorf("the workspaces are %s", where.Body)
	}
	kept, err := c.CreateCredentialsWithResponse(ctx, nil, platform.NewCredentialsBody{Credentials: platform.NewCredentialsSpec{
		Name: "here", Provider: new("container-reg"),
		Keys: &map[string]any{"userName": os.Getenv("USERNAME"), "password": os.Getenv("PASSWORD"), "registry": os.Getenv("REGISTRY")},
	}})
	is(t, "credentials", err, kept.StatusCode(), 200, kept.Body)
	list, err := c.ListCredentialsWithResponse(ctx, nil)
	is(t, "the credentials", err, list.StatusCode(), 200, list.Body)
	if l := list.JSON200.Credentials; len(l) != 1 || l[0].ID != kept.JSON200.CredentialsID || strings.Contains(string(list.Body), os.Getenv("PASSWORD")) {
		t.Errorf("the credentials are %s", list.Body)
	}
	return made.JSON200.AccessKey
}

// requestContainer requests a private image with credentials of the platform.
func requestContainer(t *testing.T, server, token string) {
	t.Helper()
	image := os.Getenv("IMAGE")
	ctx := t.Context()
	c, err := container.NewClientWithResponses(server, container.WithRequestEditorFn(bearer(token)))
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.GetServiceInfoWithResponse(ctx)
	is(t, "service info", err, info.StatusCode(), 200, info.Body)
	asked, err := c.SubmitContainerWithResponse(ctx, container.ContainerRequest{
		ContainerImage: &image, ContainerConfig: &container.ContainerConfig{Env: &[]string{"GREETING=hello"}},
	})
	is(t, "a request", err, asked.StatusCode(), 200, asked.Body)
	pull(t, *asked.JSON200.TargetImage)
	id := *asked.JSON200.RequestID
	state, err := c.GetContainerStatusWithResponse(ctx, id)
	is(t, "its status", err, state.StatusCode(), 200, state.Body)
	if *state.JSON200.Status != "DONE" || !*state.JSON200.Succeeded {
		t.Errorf("the status is %s", state.Body)
	}
	stored, err := c.DescribeContainerWithResponse(ctx, id)
	is(t, "the request", err, stored.StatusCode(), 200, stored.Body)
	if env := *stored.JSON200.ContainerConfig.Env; len(env) != 1 || env[0] != "GREETING" {
		t.Errorf("the variables are %v", env)
	}
	seen, err := c.InspectImageWithResponse(ctx, &container.InspectImageParams{Platform: new("linux/arm64")}, container.ImageQuery{ContainerImage: image})
	is(t, "inspect", err, seen.StatusCode(), 200, seen.Body)
	if *seen.JSON200.Container.Config.Architecture != "arm64" || *(*seen.JSON200.Container.Manifest.Layers)[0].Size < 1 {
		t.Errorf("the image is %s", seen.Body)
	}
	builds, err := c.ListBuildsWithResponse(ctx, nil)
	is(t, "builds", err, builds.StatusCode(), 200, builds.Body)
	unknown, err := c.GetBuildStatusWithResponse(ctx, "3f2a00000000beef_1")
	is(t, "no build", err, unknown.StatusCode(), 404, unknown.Body)
	if unknown.JSON404.Message == "" {
		t.Error("a missing build has no message")
	}
	gone, err := c.RevokeContainerWithResponse(ctx, id)
	is(t, "the end", err, gone.StatusCode(), 204, gone.Body)
}

// reportRun reports a run and reads it.
func reportRun(t *testing.T, server, token string) {
	t.Helper()
	ctx := t.Context()
	c, err := platform.NewClientWithResponses(server, platform.WithRequestEditorFn(bearer(token)))
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.CreateTraceWithResponse(ctx, nil, platform.TraceCreate{SessionID: new("s-1"), RunName: new("happy_ørsted"), ProjectName: new("lab/flow")})
	is(t, "a run", err, run.StatusCode(), 200, run.Body)
	id := run.JSON200.WorkflowID
	begun, err := c.BeginTraceWithResponse(ctx, id, nil, platform.TraceBegin{Workflow: &map[string]any{"runName": "happy_ørsted"}, ProcessNames: &[]string{"A"}})
	is(t, "its begin", err, begun.StatusCode(), 200, begun.Body)
	task := map[string]any{"taskId": 1, "process": "A", "name": "A (1)", "status": "COMPLETED", "exit": 0, "submit": "2026-01-31T12:00:00Z"}
	told, err := c.RecordProgressWithResponse(ctx, id, nil, platform.TraceProgress{Tasks: &[]map[string]any{task}})
	is(t, "a task", err, told.StatusCode(), 200, told.Body)
	done, err := c.CompleteTraceWithResponse(ctx, id, nil, platform.TraceComplete{Workflow: &map[string]any{"success": true}})
	is(t, "its end", err, done.StatusCode(), 200, done.Body)
	counts, err := c.GetWorkflowProgressWithResponse(ctx, id, nil)
	is(t, "its counts", err, counts.StatusCode(), 200, counts.Body)
	if n := counts.JSON200.Progress.WorkflowProgress.Succeeded; n != 1 {
		t.Errorf("%d tasks have succeeded", n)
	}
	runs, err := c.ListWorkflowsWithResponse(ctx, &platform.ListWorkflowsParams{Search: new("status:SUCCEEDED")})
	is(t, "runs", err, runs.StatusCode(), 200, runs.Body)
	if l := runs.JSON200.Workflows; len(l) != 1 || l[0].Workflow.RunName == nil || *l[0].Workflow.RunName != "happy_ørsted" {
		t.Errorf("the runs are %s", runs.Body)
	}
}
