package platform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A reporter sends the reports of a run as nf-tower does.
type reporter struct {
	*world
	who, id string
}

func (r *reporter) create(body string) string {
	r.t.Helper()
	return must(r.client.CreateTrace(r.as(r.who), &platformv1.CreateTraceRequest{WorkspaceId: &r.ws, Body: []byte(body)}))(r.t).GetWorkflowId()
}

func (r *reporter) begin(body string) {
	r.t.Helper()
	resp := must(r.client.BeginTrace(r.as(r.who), &platformv1.BeginTraceRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Body: []byte(body)}))(r.t)
	if resp.GetStatus() != "OK" || !strings.HasSuffix(resp.GetWatchUrl(), r.id) {
		r.t.Errorf("begin answers %v", resp)
	}
}

func (r *reporter) progress(body string) error {
	_, err := r.client.RecordProgress(r.as(r.who), &platformv1.RecordProgressRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Body: []byte(body)})
	return err
}

func (r *reporter) complete(body string) {
	r.t.Helper()
	must(r.client.CompleteTrace(r.as(r.who), &platformv1.CompleteTraceRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Body: []byte(body)}))(r.t)
}

func (r *reporter) describe() (map[string]any, *platformv1.Load) {
	r.t.Helper()
	d := must(r.client.DescribeWorkflow(r.as("view"), &platformv1.DescribeWorkflowRequest{WorkspaceId: &r.ws, WorkflowId: r.id}))(r.t)
	return members(r.t, d.GetDocument()), d.GetProgress().GetWorkflowProgress()
}

const created = `{"sessionId":"6b1c-é","runName":"happy_ørsted","projectName":"nf-core/rnaseq","repository":"https://x/y","instant":1769860800000,"later":{"x":1}}`

func begun(t *testing.T, db *sqldb.DB) *reporter {
	t.Helper()
	r := &reporter{world: newWorld(t, db), who: "launch"}
	r.id = r.create(created)
	r.begin(`{"workflow":{"id":"x","runName":"happy_ørsted","sessionId":"6b1c-é","projectName":"nf-core/rnaseq","userName":"adá","commandLine":"nextflow run x",
		"start":"2026-01-31T13:00:01.5+01:00","params":{"ünï":[1,null,"\ud83d\ude00"]},"nextflow":{"version":"26.04","build":1},"resume":false,"container":"quay.io/x",
		"someLaterField":{"a":[{}]}},"processNames":["A","B"],"towerLaunch":false,"instant":1}`)
	return r
}

// tasks returns a report of tasks in a state, numbered from first.
func tasks(first, n int, status, more string) string {
	var list []string
	for i := range n {
		id := first + i
		list = append(list, fmt.Sprintf(`{"taskId":%d,"hash":"ab/%06d","process":"%s","name":"A (sämple %d)","status":"%s","cpus":2,"memory":1000,"executor":"local","attempt":1,
			"submit":"2026-01-31T12:00:00Z","start":"2026-01-31T12:00:01Z","module":[],"laterField":true%s}`, id, id, []string{"A", "B"}[id%2], id, status, more))
	}
	return `{"tasks":[` + strings.Join(list, ",") + `],"progress":{"pending":7,"peakRunning":150,"peakCpus":300,"processes":[{"index":0,"name":"A","pending":7}]},"containers":[],"instant":1769860800000}`
}

const usage = `,"exit":0,"complete":"2026-01-31T12:00:11Z","realtime":10000,"pcpu":150.0,"peakRss":500,"readBytes":10,"writeBytes":20,"volCtxt":1,"invCtxt":2,"script":"echo"`

// TestReplay reports a complete run with repeated, late and contradictory reports.
func TestReplay(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := begun(t, db)
		again := r.create(`{"sessionId":"other","runName":"happy_ørsted"}`)
		if again == r.id {
			t.Error("another session is the same run")
		}
		for _, batch := range []string{
			tasks(1, 100, "SUBMITTED", ""), tasks(101, 100, "SUBMITTED", ""), tasks(1, 100, "RUNNING", ""),
			tasks(1, 100, "RUNNING", ""),     // repeated
			tasks(1, 50, "COMPLETED", usage), // some end
			tasks(1, 100, "SUBMITTED", ""),   // late
			tasks(1, 50, "COMPLETED", usage), tasks(51, 1, "FAILED", `,"errorAction":"RETRY","exit":"137"`+usage[9:]),
			tasks(52, 1, "FAILED", `,"errorAction":"IGNORE","exit":2147483647,"complete":"2026-01-31T12:00:12Z"`), tasks(53, 1, "ABORTED", ""), tasks(54, 1, "CACHED", ""),
			tasks(1, 50, "FAILED", ""), // a final state does not change
			`{"tasks":[{"taskId":"55","status":"RUNNING","process":"A"},{"taskId":null},7,{"status":"RUNNING"}],"progress":"none"}`,
			`{"tasks":"none","unknown":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
			"{\"tasks\":[{\"taskId\":300,\"process\":\"\xff\\ud800\\u0000\",\"name\":\"\xff\",\"status\":\"NEW\"}]}",
		} {
			wantError(t, batch[:min(len(batch), 60)], r.progress(batch), nil)
		}
		for _, bad := range []string{"", "[]", "null", "{", `{}{}`, "7"} {
			wantError(t, bad, r.progress(bad), fault.Invalid)
		}
		run, load := r.describe()
		want := map[string]float64{
			"pending": 1 + 7, "submitted": 100, "running": 46, "succeeded": 50, "failed": 1, "ignored": 1, "aborted": 1, "cached": 1, "retries": 1,
			"loadTasks": 46, "loadCpus": 92, "peakTasks": 150, "peakCpus": 300, "readBytes": 510, "cpuTime": 51 * 2 * 10000, "cpuLoad": 51 * 15000,
		}
		got := map[string]float64{}
		raw, _ := json.Marshal(load)
		_ = json.Unmarshal(raw, &got)
		for name, n := range map[string]float64{
			"pending": load.GetPending(), "submitted": load.GetSubmitted(), "running": load.GetRunning(), "succeeded": load.GetSucceeded(),
			"failed": load.GetFailed(), "ignored": load.GetIgnored(), "aborted": load.GetAborted(), "cached": load.GetCached(), "retries": load.GetRetries(),
			"loadTasks": load.GetLoadTasks(), "loadCpus": load.GetLoadCpus(), "peakTasks": load.GetPeakTasks(), "peakCpus": load.GetPeakCpus(),
			"readBytes": load.GetReadBytes(), "cpuTime": load.GetCpuTime(), "cpuLoad": load.GetCpuLoad(),
		} {
			if n != want[name] {
				t.Errorf("%s is %v, want %v", name, n, want[name])
			}
		}
		if run["status"] != "RUNNING" || run["userName"] != "adá" || run["start"] != "2026-01-31T12:00:01Z" || run["id"] != r.id || run["someLaterField"] == nil || run["workDir"] != "" {
			t.Errorf("the run is %v", run)
		}
		if !slices.Equal(load.GetExecutors(), []string{"local"}) || load.GetCpuEfficiency() != 75 {
			t.Errorf("the load is %v", load)
		}
		r.checkTasks()
		r.checkEnd()
	})
}

func (r *reporter) checkTasks() {
	t := r.t
	ask := func(id int64) map[string]any {
		return members(t, must(r.client.DescribeTask(r.as("view"), &platformv1.DescribeTaskRequest{WorkspaceId: &r.ws, WorkflowId: r.id, TaskId: id}))(t).GetDocument())
	}
	if one := ask(1); one["exit"] != 0.0 || one["exitStatus"] != 0.0 || one["id"] != 1.0 || one["laterField"] != true || one["status"] != "COMPLETED" {
		t.Errorf("a task is %v", one)
	}
	if text, unknown := ask(51)["exit"], ask(52)["exit"]; text != 137.0 || unknown != nil {
		t.Errorf("exits are %v and %v", text, unknown)
	}
	list := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Max: new(int32(3)), Offset: new(int32(1)), Search: "SÄMPLE 1", SortBy: "taskId", SortDir: "desc"}))(t)
	if list.GetTotal() < 100 || len(list.GetTasks()) != 3 || members(t, list.GetTasks()[0].GetDocument())["taskId"] != 198.0 {
		t.Errorf("found %v", list)
	}
	page := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Page: new(int32(2)), PageSize: new(int32(2)), Search: "SÄMPLE 1", SortDir: "desc"}))(t)
	if page.GetTotal() != list.GetTotal() || len(page.GetTasks()) != 2 || members(t, page.GetTasks()[0].GetDocument())["taskId"] != 197.0 {
		t.Errorf("the second page is %v", page)
	}
	_, err := r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, SortBy: "1; DROP TABLE platform_tasks"})
	wantError(t, "an injection", err, fault.Invalid)
	r.checkOutcomes()
}

// checkOutcomes lists the tasks by their outcome and in some statuses.
func (r *reporter) checkOutcomes() {
	t := r.t
	list := func(status, sortBy, search string) (statuses []string, total int32) {
		t.Helper()
		resp := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{
			WorkspaceId: &r.ws, WorkflowId: r.id, Max: new(int32(1000)), Status: status, SortBy: sortBy, Search: search,
		}))(t)
		for _, item := range resp.GetTasks() {
			status, _ := members(t, item.GetDocument())["status"].(string)
			statuses = append(statuses, status)
		}
		return statuses, resp.GetTotal()
	}
	all, total := list("", "outcome", "")
	if got, want := slices.Compact(all), []string{"FAILED", "ABORTED", "RUNNING", "SUBMITTED", "NEW", "COMPLETED", "CACHED"}; !slices.Equal(got, want) || total != 201 {
		t.Errorf("%d tasks by outcome are %q, want %q", total, got, want)
	}
	some, total := list("CACHED,FAILED,CACHED", "outcome", "")
	if want := []string{"FAILED", "FAILED", "CACHED"}; !slices.Equal(some, want) || total != 3 {
		t.Errorf("%d failed and cached tasks are %q, want %q", total, some, want)
	}
	if found, total := list("FAILED", "", "sämple 52"); total != 1 || len(found) != 1 {
		t.Errorf("the failed task 52 is found %d times: %q", total, found)
	}
	latest := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, SortBy: "outcome", Max: new(int32(1))}))(t)
	if got := members(t, latest.GetTasks()[0].GetDocument())["taskId"]; got != 52.0 {
		t.Errorf("the first task by outcome is %v, not the last one that failed", got)
	}
	of := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Process: "B", Status: "COMPLETED"}))(t)
	if of.GetTotal() != 25 {
		t.Errorf("process B has %d completed tasks", of.GetTotal())
	}
	for _, bad := range []string{"failed", "FAILED,", "' OR 1=1 --", strings.Repeat("NEW,", 100_000)} {
		_, err := r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Status: bad})
		wantError(t, bad[:min(len(bad), 20)], err, fault.Invalid)
	}
	_, err := r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Process: strings.Repeat("x", 10_000)})
	wantError(t, "a long name of a process", err, fault.Invalid)
}

func (r *reporter) checkEnd() {
	t := r.t
	end := `{"workflow":{"success":true,"complete":"2026-01-31T14:00:00+01:00","exitStatus":0,"duration":3600000,"stats":{"succeedCount":50}},"metrics":[{"process":"A","cpu":{"mean":1.5,"max":1e400}},7],"progress":{},"instant":1}`
	_, err := r.client.DeleteWorkflow(r.as("launch"), &platformv1.DeleteWorkflowRequest{WorkspaceId: &r.ws, WorkflowId: r.id})
	wantError(t, "deleting a run that goes on", err, fault.Conflict)
	r.complete(end)
	r.complete(`{"workflow":{"success":false}}`)
	r.begin(`{"workflow":{"success":false,"commandLine":"late"}}`)
	run, _ := r.describe()
	if run["status"] != "SUCCEEDED" || run["commandLine"] != "nextflow run x" || run["complete"] != "2026-01-31T13:00:00Z" || run["success"] != true {
		t.Errorf("the run ended as %v", run)
	}
	metrics := must(r.client.GetWorkflowMetrics(r.as("view"), &platformv1.GetWorkflowMetricsRequest{WorkspaceId: &r.ws, WorkflowId: r.id}))(t)
	if len(metrics.GetDocuments()) != 1 {
		t.Errorf("the metrics are %v", metrics)
	}
	if second := r.create(created); second == r.id {
		t.Error("a run that has ended began again")
	}
	left := must(r.client.DeleteWorkflows(r.as("launch"), &platformv1.DeleteWorkflowsRequest{WorkspaceId: &r.ws, Body: &platformv1.DeleteWorkflowsBody{WorkflowIds: []string{r.id, "none"}}}))(t)
	if !slices.Equal(left.GetFailedWorkflowIds(), []string{"none"}) {
		t.Errorf("left are %v", left)
	}
	wantError(t, "a report of what is gone", r.progress("{}"), fault.NotFound)
}

func TestCreateAgain(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := &reporter{world: newWorld(t, db), who: "launch"}
		ids := make([]string, 6)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() { ids[i] = r.create(created) })
		}
		wg.Wait()
		if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
			t.Errorf("one run is %v", ids)
		}
		given := `{"workflowId":"abc123","sessionId":"s","runName":"n"}`
		if id := r.create(given); id != "abc123" || r.create(given) != id {
			t.Errorf("the given id became %s", id)
		}
		for body, kind := range map[string]error{
			`{"workflowId":"abc123","sessionId":"s","runName":"other"}`: fault.Conflict,
			`{"workflowId":"` + strings.Repeat("x", 17) + `"}`:          fault.Invalid,
			`{"workflowId":"../x"}`:                                     fault.Invalid,
		} {
			_, err := r.client.CreateTrace(r.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &r.ws, Body: []byte(body)})
			wantError(t, body, err, kind)
		}
		_, err := r.client.CreateTrace(r.as("stranger"), &platformv1.CreateTraceRequest{Body: []byte(given)})
		wantError(t, "another's id", err, fault.NotFound)
	})
}

// TestConcurrentReports checks the counts after concurrent reports of one run.
func TestConcurrentReports(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := begun(t, db)
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				for _, status := range []string{"SUBMITTED", "RUNNING", "COMPLETED"} {
					wantError(t, status, r.progress(tasks(1+20*(n%4), 40, status, "")), nil)
				}
			})
		}
		wg.Wait()
		if _, l := r.describe(); l.GetSucceeded() != 100 || l.GetRunning() != 0 || l.GetSubmitted() != 0 || l.GetLoadCpus() != 0 {
			t.Errorf("counted %v", l)
		}
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	r := begun(t, testkit.SQLite(t))
	status := func() any { run, _ := r.describe(); return run["status"] }
	found := func(search string) int {
		resp := must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Search: search}))(t)
		return int(resp.GetTotalSize())
	}
	r.clock.now = r.clock.now.Add(14 * time.Minute)
	if status() != "RUNNING" || found("status:running") != 1 || found("status:UNKNOWN") != 0 {
		t.Error("silent for too short a time")
	}
	must(r.client.RecordHeartbeat(r.as("launch"), &platformv1.RecordHeartbeatRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Body: []byte("{}")}))(t)
	r.clock.now = r.clock.now.Add(14 * time.Minute)
	if status() != "RUNNING" {
		t.Error("a heartbeat does not count")
	}
	r.clock.now = r.clock.now.Add(2 * time.Minute)
	if status() != "UNKNOWN" || found("status:running") != 0 || found("status:UNKNOWN") != 1 {
		t.Error("a run without heartbeats is not UNKNOWN")
	}
	must(r.client.CancelWorkflow(r.as("maintain"), &platformv1.CancelWorkflowRequest{WorkspaceId: &r.ws, WorkflowId: r.id}))(t)
	r.complete(`{"workflow":{"success":true}}`)
	if status() != "CANCELLED" {
		t.Errorf("a cancelled run is %v", status())
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := begun(t, db)
		r.clock.now = r.clock.now.Add(48 * time.Hour)
		second := r.create(`{"sessionId":"s2","runName":"sad_100%_x","projectName":"nf-core/sarek"}`)
		for search, want := range map[string]int{
			"": 2, "rnaseq": 1, "RNASEQ": 1, "nf-core": 2, "nf*sarek": 1, "happy status:UNKNOWN": 1, "happy status:FAILED": 0,
			"runName:sad": 1, "sessionId:s2": 1, "workflowId:" + second: 1, "projectName:*sarek": 1, "userName:adá": 1,
			"after:2026-02-01": 1, "before:2026-02-01": 1, "after:2026-02-01T00:00:00Z before:2026-03-01": 1, "100%": 1, "%": 1, "_": 2, "'": 0,
			"') OR 1=1 --": 0, `\`: 0, "owner:me": 0,
		} {
			resp := must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Search: search}))(t)
			if int(resp.GetTotalSize()) != want || len(resp.GetWorkflows()) != want {
				t.Errorf("%q finds %d, want %d", search, resp.GetTotalSize(), want)
			}
		}
		for _, bad := range []string{"status:nonsense", "after:yesterday", strings.Repeat("x", 501)} {
			_, err := r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Search: bad})
			wantError(t, bad[:9], err, fault.Invalid)
		}
		part := must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Max: new(int32(1)), Attributes: "progress", IncludeTotalSize: new(false)}))(t)
		if !part.GetHasMore() || part.TotalSize != nil || members(t, part.GetWorkflows()[0].GetDocument())["id"] != second || part.GetWorkflows()[0].GetProgress() == nil {
			t.Errorf("a page is %v", part)
		}
		part = must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Page: new(int32(2)), PageSize: new(int32(1))}))(t)
		if len(part.GetWorkflows()) != 1 || part.GetTotalSize() != 2 || members(t, part.GetWorkflows()[0].GetDocument())["id"] == second {
			t.Errorf("the second page is %v", part)
		}
	})
}

// TestTenThousandTasks reports a large run; services/bench measures its speed.
func TestTenThousandTasks(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := begun(t, db)
		// Some tasks are reported while they run. The reports are as large as those of a client
		// that could not send for some time.
		wantError(t, "running", r.progress(tasks(1, 1000, "RUNNING", "")), nil)
		for n := range 20 {
			wantError(t, "completed", r.progress(tasks(1+500*n, 500, "COMPLETED", usage)), nil)
		}
		if _, l := r.describe(); l.GetSucceeded() != 10_000 {
			t.Errorf("counted %v", l)
		}
	})
}

// TestTenThousandRuns searches many runs with documents; services/bench measures its speed.
func TestTenThousandRuns(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := begun(t, db)
		for n := range 100 {
			var q strings.Builder
			q.WriteString(`INSERT INTO platform_workflows (id, user_id, workspace_id, space_user, status, run_name, session_id, project_name, user_name, search,
				submitted_at, completed_at, heartbeat_at, created_at, updated_at, document, launch, metrics) VALUES `)
			for m := range 100 {
				if m > 0 {
					q.WriteByte(',')
				}
				id := 100*n + m
				fmt.Fprintf(&q, `('id%d', 1, %d, 0, 'SUCCEEDED', 'lonely_%d', 's%d', 'nf-core/rnaseq', 'ada', 'nf-core/rnaseq lonely_%d s%d', %d, 1, 1, 1, 1, '{"configText":"%s"}', '', '')`,
					id, r.ws, id, id, id, id, id, strings.Repeat("process.cpus ", 300))
			}
			must(db.ExecContext(t.Context(), q.String()))(t)
		}
		for search, want := range map[string]int{
			"": 10_001, "nothing": 0, "lonely_7777": 1, "status:SUCCEEDED": 10_000, "runName:lonely": 10_000, "userName:ada before:2026-01-01": 10_000,
		} {
			resp := must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Search: search}))(t)
			if int(resp.GetTotalSize()) != want || len(resp.GetWorkflows()) != min(25, want) {
				t.Fatalf("%q finds %d, shows %d", search, resp.GetTotalSize(), len(resp.GetWorkflows()))
			}
		}
		beyond := must(r.client.ListWorkflows(r.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &r.ws, Offset: new(int32(20_000))}))(t)
		if beyond.GetTotalSize() != 10_001 || len(beyond.GetWorkflows()) != 0 || beyond.GetHasMore() {
			t.Errorf("beyond the end: %v", beyond)
		}
	})
}

// TestLateBegin reports the start of a run that has ended. Members that the end reported are kept,
// and missing members are added.
func TestLateBegin(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		r := &reporter{world: newWorld(t, db), who: "launch"}
		r.id = r.create(created)
		r.complete(`{"workflow":{"success":true,"runName":"happy_ørsted","commandLine":"said at the end","container":"","duration":9007199254740993,"deleted":true,"status":"FAILED"}}`)
		r.begin(`{"workflow":{"runName":"other","commandLine":"said at the start","workDir":"/work","launchId":"l1","userName":"adá","container":"late"}}`)
		run, _ := r.describe()
		for name, want := range map[string]any{
			"runName": "happy_ørsted", "projectName": "nf-core/rnaseq", "sessionId": "6b1c-é", "commandLine": "said at the end", "workDir": "/work",
			"launchId": "l1", "userName": "adá", "container": "", "status": "SUCCEEDED", "deleted": false, "id": r.id,
		} {
			if run[name] != want {
				t.Errorf("%s is %v, want %v", name, run[name], want)
			}
		}
		raw := must(r.client.DescribeWorkflow(r.as("view"), &platformv1.DescribeWorkflowRequest{WorkspaceId: &r.ws, WorkflowId: r.id}))(t).GetDocument().GetJson()
		if !bytes.Contains(raw, []byte(`"duration":9007199254740993`)) || bytes.Count(raw, []byte(`"runName":`)) != 1 {
			t.Errorf("the run is %s", raw)
		}
	})
}

// TestTextMembers checks that members are strings where the published API requires it, whatever
// Nextflow sends.
func TestTextMembers(t *testing.T) {
	t.Parallel()
	r := begun(t, testkit.SQLite(t))
	if err := r.progress(tasks(1, 1, "RUNNING", `,"nativeId":4711,"scratch":false,"queue":{"no":"string"}`)); err != nil {
		t.Fatal(err)
	}
	run, _ := r.describe()
	if nextflow := run["nextflow"].(map[string]any); nextflow["build"] != "1" || nextflow["version"] != "26.04" {
		t.Errorf("nextflow is %v", nextflow)
	}
	resp := must(r.client.DescribeTask(r.as("view"), &platformv1.DescribeTaskRequest{WorkspaceId: &r.ws, WorkflowId: r.id, TaskId: 1}))(t)
	task := members(t, resp.GetDocument())
	if _, has := task["queue"]; has || task["nativeId"] != "4711" || task["scratch"] != "false" {
		t.Errorf("nativeId is %v, scratch %v, queue %v", task["nativeId"], task["scratch"], task["queue"])
	}
}
