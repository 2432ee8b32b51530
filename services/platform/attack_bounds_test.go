package platform_test

import (
	"fmt"
	"strings"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestRecordsPerUserAreBounded checks the limit of everything that a user can create.
func TestRecordsPerUserAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	view := w.as("view")
	for what, c := range map[string]struct {
		limit int
		make  func(n int) error
	}{
		"organisations": {limits.OrganizationsPerUser, func(n int) error {
			_, err := w.client.CreateOrganization(view, &platformv1.CreateOrganizationRequest{Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new(fmt.Sprint("org-", n))}}})
			return err
		}},
		"tokens": {limits.TokensPerUser - 1, func(n int) error {
			_, err := w.client.CreateToken(view, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: fmt.Sprint(n)}})
			return err
		}},
		"credentials": {limits.CredentialsPerWorkspace, func(n int) error {
			_, err := w.client.CreateCredentials(view, &platformv1.CreateCredentialsRequest{Body: login(fmt.Sprint(n), "quay.io", "x")})
			return err
		}},
		"workspaces": {limits.WorkspacesPerOrganization - 1, func(n int) error {
			_, err := w.client.CreateWorkspace(w.as("boss"), &platformv1.CreateWorkspaceRequest{OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new(fmt.Sprint("ws-", n))}}})
			return err
		}},
	} {
		for n := range c.limit {
			if err := c.make(n); err != nil {
				t.Fatalf("%s: number %d: %v", what, n, err)
			}
		}
		err := c.make(c.limit)
		wantError(t, what+" above the limit", err, fault.Invalid)
		if e, _ := fault.As(err); e == nil || e.Code != fault.ObjectLimit || e.Detail == nil {
			t.Errorf("%s above the limit: the error is %+v", what, e)
		}
	}
}

// TestReportsAreBounded checks that the stored size of a run is bounded, whatever it reports and
// however often, and that a list of such runs is small.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		launch := w.as("launch")
		run := must(w.client.CreateTrace(launch, &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		large := strings.Repeat("x", 1<<20)
		for n := range 8 {
			must(w.client.BeginTrace(launch, &platformv1.BeginTraceRequest{WorkspaceId: &w.ws, WorkflowId: run, Body: fmt.Appendf(nil, `{"workflow":{"member%d":%q},"launch":{"x":%q}}`, n, large, large)}))(t)
			must(w.client.RecordProgress(launch, &platformv1.RecordProgressRequest{WorkspaceId: &w.ws, WorkflowId: run, Body: fmt.Appendf(nil, `{"tasks":[{"taskId":1,"status":"RUNNING","name":"n%d","member%d":%q}]}`, n, n, large)}))(t)
		}
		var kept, task int
		if err := db.QueryRowContext(t.Context(), `SELECT length(document) FROM platform_workflows`).Scan(&kept); err != nil || kept > limits.RunDocument {
			t.Errorf("%d bytes are stored of a run, %v", kept, err)
		}
		if err := db.QueryRowContext(t.Context(), `SELECT length(document) FROM platform_tasks`).Scan(&task); err != nil || task > limits.TaskDocument {
			t.Errorf("%d bytes are stored of a task, %v", task, err)
		}
		list := must(w.client.ListWorkflows(launch, &platformv1.ListWorkflowsRequest{WorkspaceId: &w.ws}))(t)
		if n := len(list.GetWorkflows()[0].GetDocument().GetJson()); n > limits.ListedRun || !strings.Contains(list.String(), run) {
			t.Errorf("a list returns %d bytes of a run", n)
		}
		tasks := must(w.client.ListTasks(launch, &platformv1.ListTasksRequest{WorkspaceId: &w.ws, WorkflowId: run}))(t)
		if n := len(tasks.GetTasks()[0].GetDocument().GetJson()); n > limits.ListedTask {
			t.Errorf("a list returns %d bytes of a task", n)
		}
		shown := must(w.client.DescribeWorkflow(launch, &platformv1.DescribeWorkflowRequest{WorkspaceId: &w.ws, WorkflowId: run}))(t)
		if n := len(shown.GetDocument().GetJson()); n < 1<<20 {
			t.Errorf("DescribeWorkflow returns %d bytes", n)
		}
		_, err := w.client.ListWorkflows(launch, &platformv1.ListWorkflowsRequest{WorkspaceId: &w.ws, Search: strings.Repeat("a ", limits.SearchWords+1)})
		wantError(t, "a search of many words", err, fault.Invalid)
	})
}
