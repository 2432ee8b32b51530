package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plugin reports a run like Nextflow's nf-tower plugin, with the same fields and the same order
// of calls.
type plugin struct {
	t     testing.TB
	p     *program
	query string // selects the workspace
	id    string
	calls int
}

// ask makes a call, alternating between the platform's two URLs. It retries rate-limited calls,
// as the plugin does.
func (n *plugin) ask(method, path string, body any) reply {
	n.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for {
		n.calls++
		base := []string{n.p.url + "/api", n.p.platform}[n.calls%2]
		r := request(n.t, method, base+path+separator+n.query, body, "Authorization", "Bearer "+n.p.token)
		wait, err := strconv.Atoi(r.header.Get("Retry-After"))
		if r.status != http.StatusTooManyRequests || err != nil {
			return r
		}
		time.Sleep(time.Duration(wait) * time.Second) // as the server has requested
	}
}

// ok makes a call that must succeed, and returns the body.
func (n *plugin) ok(method, path string, body any) map[string]any {
	n.t.Helper()
	r := n.ask(method, path, body)
	if r.status != http.StatusOK {
		n.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	return r.json(n.t)
}

// wants makes a call and checks its status.
func (n *plugin) wants(status int, method, path string, body any) {
	n.t.Helper()
	if r := n.ask(method, path, body); r.status != status {
		n.t.Errorf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
	}
}

const (
	traceCreate = `{"sessionId":"7f3c0e5e-ørsted","runName":"sleepy_ångström","projectName":"nf-core/rnaseq","repository":"https://github.com/nf-core/rnaseq",
		"instant":1769860800000,"aLaterField":{"deep":[1,{"x":null}]}}`
	traceWorkflow = `"id":null,"runName":"sleepy_ångström","sessionId":"7f3c0e5e-ørsted","projectName":"nf-core/rnaseq","repository":"https://github.com/nf-core/rnaseq",
		"commitId":"3bec2331cac2b5ff88a1dc71a21fab6529b57a0f","revision":"3.14.0","start":"2026-01-31T13:00:00.123456+01:00","complete":null,"duration":null,
		"commandLine":"nextflow run nf-core/rnaseq -profile docker --naïve '日本'","scriptName":"main.nf","scriptFile":"/w/main.nf","projectDir":"/home/ada/.nextflow/assets",
		"launchDir":"/home/ada","workDir":"s3://bücket/work","homeDir":"/home/ada","userName":"adá","profile":"docker","container":{"FASTQC":"quay.io/fastqc:1"},
		"containerEngine":"docker","nextflow":{"version":"26.04.0","build":5959,"timestamp":"2026-01-05T16:52:00Z"},"manifest":{"name":"nf-core/rnaseq","version":"3.14.0"},
		"configFiles":["/w/nextflow.config"],"configText":"params { x = '\ud83d\ude00' }","params":{"outdir":"results","skip":true,"n":1.5,"none":null},"resume":false,
		"stubRun":false,"wave":{"enabled":true},"fusion":{"enabled":false,"version":null},"logFile":null,"outFile":null,"operationId":null`
	traceCounts = `{"pending":0,"submitted":0,"running":100,"succeeded":0,"failed":0,"cached":0,"retries":0,"aborted":0,"ignored":0,"loadCpus":200,"loadMemory":0,
		"peakRunning":100,"peakCpus":200,"peakMemory":0,"processes":[{"index":0,"name":"NFCORE:ALIGN","pending":0,"terminated":false,"errored":false}]}`
)

// traceTasks returns a batch of tasks, numbered from first.
func traceTasks(first, count int, status string, more map[string]any) string {
	var list []map[string]any
	for id := first; id < first+count; id++ {
		one := map[string]any{
			"taskId": id, "hash": fmt.Sprintf("%02x/%06x", id%256, id), "nativeId": strconv.Itoa(4000 + id), "process": "NFCORE:ALIGN", "module": []string{}, "container": "quay.io/star:2",
			"tag": "Prøbe " + strconv.Itoa(id), "name": fmt.Sprintf("NFCORE:ALIGN (Prøbe %d)", id), "status": status, "exit": 2147483647, "submit": 1769860801000,
			"start": nil, "complete": nil, "duration": nil, "realtime": nil, "pcpu": nil, "attempt": 1, "cpus": 2, "memory": 6442450944, "disk": nil, "time": 14400000,
			"workdir": "s3://bücket/work/x", "script": "STAR --genomeDir 'x'\n", "scratch": nil, "queue": "long", "env": nil, "errorAction": nil, "executor": "slurm",
			"cloudZone": nil, "machineType": nil, "priceModel": nil, "hostname": "nøde-1", "fieldOfTomorrow": map[string]any{"a": []int{1}},
		}
		maps.Copy(one, more)
		list = append(list, one)
	}
	raw, _ := json.Marshal(list) // strings and numbers only
	return `{"tasks":` + string(raw) + `,"progress":` + traceCounts + `,"containers":[{"requestId":"r","sourceImage":"a","targetImage":"b","later":1}],"instant":1769860802000}`
}

func ran(action any) map[string]any {
	return map[string]any{
		"start": "2026-01-31T12:00:02Z", "complete": "2026-01-31T12:00:12Z", "exit": 0, "duration": 11000, "realtime": 10000, "pcpu": 150.0, "pmem": 1.5, "rss": 1e9, "vmem": 2e9,
		"peakRss": 3221225472, "peakVmem": 4e9, "rchar": 10, "wchar": 20, "syscr": 1, "syscw": 2, "readBytes": 1000, "writeBytes": 500, "volCtxt": 3, "invCtxt": 4, "errorAction": action,
	}
}

// TestTraceOfNextflow reports a run with typical network faults, and reads it in all supported
// ways.
func TestTraceOfNextflow(t *testing.T) {
	t.Parallel()
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		n := &plugin{t: t, p: p, query: "workspaceId=" + p.makeWorkspace("lab", "rnaseq")}
		n.run()
		n.listed()
		n.described()
		n.tasks()
		n.finish()
		n.removed()
	})
}

// run reports until all tasks have ended.
func (n *plugin) run() {
	t := n.t
	t.Helper()
	made := n.ok(http.MethodPost, "/trace/create", traceCreate)
	n.id = text(made, "workflowId")
	if again := text(n.ok(http.MethodPost, "/trace/create", traceCreate), "workflowId"); again != n.id || len(n.id) > 16 || !strings.HasSuffix(text(made, "watchUrl"), n.id) {
		t.Errorf("the ids of one run are %s and %s, in %v", n.id, again, made)
	}
	begun := n.ok(http.MethodPut, "/trace/"+n.id+"/begin", `{"workflow":{`+traceWorkflow+`},"processNames":["NFCORE:ALIGN","NFCORE:QC"],"towerLaunch":false,"instant":1}`)
	if begun["status"] != "OK" || begun["workflowId"] != n.id || !strings.HasSuffix(text(begun, "watchUrl"), "/orgs/lab/workspaces/rnaseq/watch/"+n.id) {
		t.Errorf("begin returned %v", begun)
	}
	send := func(body string) {
		t.Helper()
		if r := n.ok(http.MethodPut, "/trace/"+n.id+"/progress", body); r["status"] != "OK" || r["workflowId"] != n.id {
			t.Errorf("progress returned %v", r)
		}
	}
	started := map[string]any{"start": 1769860802000}
	for first := 1; first <= 300; first += 100 {
		send(traceTasks(first, 100, "SUBMITTED", nil))
		send(traceTasks(first, 100, "RUNNING", started))
		send(traceTasks(first, 100, "RUNNING", started)) // its response was lost
	}
	if beat := n.ok(http.MethodPut, "/trace/"+n.id+"/heartbeat", `{"progress":`+traceCounts+`,"instant":1}`); beat["message"] == nil {
		t.Errorf("a heartbeat returned %v", beat)
	}
	send(traceTasks(1, 100, "COMPLETED", ran(nil)))
	send(traceTasks(101, 97, "COMPLETED", ran(nil)))
	send(traceTasks(198, 1, "FAILED", map[string]any{"exit": "137", "errorAction": "RETRY"}))
	send(traceTasks(199, 1, "FAILED", map[string]any{"errorAction": "IGNORE"}))
	send(traceTasks(200, 1, "CACHED", nil))
	send(traceTasks(1, 100, "SUBMITTED", nil))      // late
	send(traceTasks(101, 97, "RUNNING", started))   // late
	send(traceTasks(1, 100, "COMPLETED", ran(nil))) // repeated
	send("{\"tasks\":[{\"taskId\":301,\"status\":\"SUBMITTED\",\"process\":\"NFCORE:QC\",\"name\":\"\xff\xfe\"},null,7,{}],\"progress\":[],\"instant\":null}")
	for _, bad := range []string{"[]", "{", "", "null"} {
		n.wants(http.StatusBadRequest, http.MethodPut, "/trace/"+n.id+"/progress", bad)
	}
}

// listed finds the run in lists.
func (n *plugin) listed() {
	t := n.t
	t.Helper()
	for search, want := range map[string]float64{
		"": 1, "ÅNGSTRÖM": 1, "nf-core/*seq": 1, "status:RUNNING userName:adá": 1, "sessionId:7f3c0e5e-ørsted": 1, "workflowId:" + n.id: 1, "status:FAILED": 0, "' OR 1=1 --": 0, "%": 0,
	} {
		list := n.ok(http.MethodGet, "/workflow?attributes=progress&search="+url.QueryEscape(search), nil)
		runs, _ := list["workflows"].([]any)
		if list["totalSize"] != want || float64(len(runs)) != want || list["hasMore"] != false {
			t.Errorf("%q finds %v", search, list)
		}
	}
	n.wants(http.StatusBadRequest, http.MethodGet, "/workflow?search=status:nonsense", nil)
	n.wants(http.StatusConflict, http.MethodGet, "/workflow/validate?runName=sleepy_%C3%A5ngstr%C3%B6m&sessionId=7f3c0e5e-%C3%B8rsted", nil)
	n.wants(http.StatusNoContent, http.MethodGet, "/workflow/validate?runName=other&sessionId=7f3c0e5e-%C3%B8rsted", nil)
}

// described checks the run and its counts.
func (n *plugin) described() {
	t := n.t
	t.Helper()
	all := n.ok(http.MethodGet, "/workflow/"+n.id, nil)
	run, _ := all["workflow"].(map[string]any)
	for name, want := range map[string]any{
		"id": n.id, "status": "RUNNING", "runName": "sleepy_ångström", "start": "2026-01-31T12:00:00Z", "userName": "adá", "workDir": "s3://bücket/work",
		"commandLine": "nextflow run nf-core/rnaseq -profile docker --naïve '日本'", "configText": "params { x = '😀' }", "deleted": false, "resume": false,
	} {
		if run[name] != want {
			t.Errorf("%s is %v, want %v", name, run[name], want)
		}
	}
	if fusion, _ := run["fusion"].(map[string]any); fusion == nil || all["orgName"] != "lab" || all["workspaceName"] != "rnaseq" || all["labels"] == nil {
		t.Errorf("the run is %v", all)
	}
	progress, _ := n.ok(http.MethodGet, "/workflow/"+n.id+"/progress", nil)["progress"].(map[string]any)
	load, _ := progress["workflowProgress"].(map[string]any)
	const memory, rss = 6442450944, 3221225472
	for name, want := range map[string]float64{
		"pending": 0, "submitted": 1, "running": 100, "succeeded": 197, "failed": 1, "ignored": 1, "cached": 1, "aborted": 0, "retries": 1,
		"cpus": 199 * 2, "cpuTime": 197 * 20000, "cpuLoad": 197 * 15000, "memoryRss": 197 * rss, "memoryReq": 199 * memory, "readBytes": 197 * 1000, "writeBytes": 197 * 500,
		"volCtxSwitch": 197 * 3, "invCtxSwitch": 197 * 4, "loadTasks": 100, "loadCpus": 200, "loadMemory": 100 * memory, "peakTasks": 300, "peakCpus": 600, "peakMemory": 300 * memory,
		"cpuEfficiency": 75,
	} {
		if load[name] != want {
			t.Errorf("%s is %v, want %v", name, load[name], want)
		}
	}
	if by, _ := progress["processesProgress"].([]any); len(by) != 2 || progress["totalProcesses"] != 2.0 {
		t.Errorf("the processes are %v", by)
	}
	if launch := n.ok(http.MethodGet, "/workflow/"+n.id+"/launch", nil); launch["launch"] != nil {
		t.Errorf("the launch is %v", launch)
	}
}

// tasks checks the tasks of the run.
func (n *plugin) tasks() {
	t := n.t
	t.Helper()
	list := n.ok(http.MethodGet, "/workflow/"+n.id+"/tasks?max=5&offset=2&sortBy=taskId&sortDir=desc&search="+url.QueryEscape("PRØBE 2"), nil)
	page, _ := list["tasks"].([]any)
	if list["total"] != 111.0 || len(page) != 5 {
		t.Fatalf("found %v of %v", len(page), list["total"])
	}
	first, _ := page[0].(map[string]any)["task"].(map[string]any)
	if first["taskId"] != 297.0 || first["tag"] != "Prøbe 297" || first["fieldOfTomorrow"] == nil || first["exit"] != nil || first["start"] != "2026-01-31T12:00:02Z" {
		t.Errorf("a task is %v", first)
	}
	one, _ := n.ok(http.MethodGet, "/workflow/"+n.id+"/task/198", nil)["task"].(map[string]any)
	if one["exit"] != 137.0 || one["exitStatus"] != 137.0 || one["status"] != "FAILED" {
		t.Errorf("task 198 is %v", one)
	}
	n.wants(http.StatusForbidden, http.MethodGet, "/workflow/"+n.id+"/task/999", nil)
	n.wants(http.StatusBadRequest, http.MethodGet, "/workflow/"+n.id+"/tasks?sortBy=hash", nil)
}

// finish ends the run repeatedly.
func (n *plugin) finish() {
	t := n.t
	t.Helper()
	n.ok(http.MethodPut, "/trace/"+n.id+"/progress", traceTasks(201, 100, "ABORTED", nil))
	n.wants(http.StatusConflict, http.MethodDelete, "/workflow/"+n.id, nil)
	end := strings.NewReplacer(`"complete":null`, `"complete":"2026-01-31T14:00:00+01:00"`, `"duration":null`, `"duration":3600000`).Replace(traceWorkflow)
	body := `{"workflow":{` + end + `,"success":true,"exitStatus":0,"errorMessage":null,"errorReport":null,"stats":{"succeededCount":197}},
		"metrics":[{"process":"NFCORE:ALIGN","cpu":{"mean":150.25,"min":1,"q1":2,"q2":3,"q3":4,"max":300,"minLabel":"α"},"mem":null}],"progress":` + traceCounts + `,"instant":1}`
	for range 2 {
		if r := n.ok(http.MethodPut, "/trace/"+n.id+"/complete", body); r["status"] != "OK" {
			t.Errorf("complete returned %v", r)
		}
	}
	n.ok(http.MethodPut, "/trace/"+n.id+"/progress", traceTasks(201, 100, "RUNNING", nil)) // late
	n.ok(http.MethodPut, "/trace/"+n.id+"/begin", `{"workflow":{"runName":"late"},"processNames":[]}`)
	all := n.ok(http.MethodGet, "/workflow/"+n.id, nil)
	run, _ := all["workflow"].(map[string]any)
	if run["status"] != "SUCCEEDED" || run["complete"] != "2026-01-31T13:00:00Z" || run["duration"] != 3600000.0 || run["runName"] != "sleepy_ångström" {
		t.Errorf("the run ended as %v", run)
	}
	metrics, _ := n.ok(http.MethodGet, "/workflow/"+n.id+"/metrics", nil)["metrics"].([]any)
	if len(metrics) != 1 || !strings.Contains(fmt.Sprint(metrics), "150.25") {
		t.Errorf("the metrics are %v", metrics)
	}
	if found := n.ok(http.MethodGet, "/workflow?search=status:SUCCEEDED", nil); found["totalSize"] != 1.0 {
		t.Errorf("found %v", found)
	}
}

// removed cancels another run, and deletes both.
func (n *plugin) removed() {
	t := n.t
	t.Helper()
	other := text(n.ok(http.MethodPost, "/trace/create", `{"sessionId":"s","runName":"given","workflowId":"Given1"}`), "workflowId")
	if other != "Given1" {
		t.Errorf("the requested id was replaced by %s", other)
	}
	n.ok(http.MethodPut, "/trace/"+other+"/begin", `{"workflow":{"runName":"given"},"processNames":[],"towerLaunch":true,"launch":{"id":"l1"}}`)
	if launch, _ := n.ok(http.MethodGet, "/workflow/"+other+"/launch", nil)["launch"].(map[string]any); launch["id"] != "l1" {
		t.Errorf("the launch is %v", launch)
	}
	for range 2 {
		n.wants(http.StatusNoContent, http.MethodPost, "/workflow/"+other+"/cancel", "{}")
	}
	n.ok(http.MethodPut, "/trace/"+other+"/complete", `{"workflow":{"success":true}}`)
	run, _ := n.ok(http.MethodGet, "/workflow/"+other, nil)["workflow"].(map[string]any)
	if run["status"] != "CANCELLED" {
		t.Errorf("a cancelled run is %v", run["status"])
	}
	n.wants(http.StatusNoContent, http.MethodDelete, "/workflow/"+other, nil)
	left := n.ok(http.MethodPost, "/workflow/delete", map[string]any{"workflowIds": []string{n.id, other}})
	if failed, _ := left["failedWorkflowIds"].([]any); len(failed) != 1 || failed[0] != other {
		t.Errorf("not deleted: %v", left)
	}
	n.wants(http.StatusForbidden, http.MethodGet, "/workflow/"+n.id, nil)
	n.wants(http.StatusForbidden, http.MethodPut, "/trace/"+n.id+"/progress", "{}")
	if list := n.ok(http.MethodGet, "/workflow", nil); list["totalSize"] != 0.0 {
		t.Errorf("not deleted: %v", list)
	}
}
