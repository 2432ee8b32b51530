package measure

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	tracedTasks = 10_000
	tracedBatch = 100
	tracedRuns  = 10_000
)

// callCPU is the processor time of slow calls.
var callCPU = figure.Metric{Name: "cpu", Unit: "ms", Of: func(s figure.Sample) float64 { return s.CPU * 1e3 }}

// Trace measures the reports of Nextflow to the platform: a run of 10,000 tasks in batches
// of 100, and lists of 10,000 runs, on each available database.
func Trace(w *world.World, s *figure.Sheet) {
	traceOn(w, s, "sqlite", "")
	if world.PostgresPrograms() != "" {
		traceOn(w, s, "postgres", w.StartPostgres().Addr)
	}
}

func traceOn(w *world.World, s *figure.Sheet, name, database string) {
	server := w.StartSlipway("SLIPWAY_DATABASE_URL=" + database)
	defer server.Stop()
	t := &tracer{server: server, client: load.Client(server.URL("/"), 1), token: server.Token()}
	progress := figure.Contender{Name: name + ": progress", Run: t.run}
	r := figure.Alternate(w.Ctx, w.Rounds, progress)
	s.Remark = fmt.Sprintf("%d tasks in batches of %d, three reports of each; %d rounds", tracedTasks, tracedBatch, w.Rounds)
	s.Check(progress.Name+" p99, best round", r.Least(progress.Name, figure.P99), "ms", figure.AtMost(50))
	s.Record(progress.Name+" p99, median", r.Median(progress.Name, figure.P99), "ms")
	s.Record(progress.Name+" p50, median", r.Median(progress.Name, figure.P50), "ms")
	s.Medians(r, progress.Name, callCPU)
	t.fill()
	var lists []figure.Contender
	for _, l := range []struct{ name, query string }{
		{"list", ""}, {"list with progress", "?attributes=progress"}, {"last page", "?max=100&offset=9900"}, {"search", "?search=nf-core+lonely_777"},
		{"search nothing", "?search=nothing"}, {"search status", "?search=status:SUCCEEDED"},
	} {
		load := load.Load{Call: t.call(http.MethodGet, "/workflow"+l.query, ""), Workers: 1, Count: 200}
		lists = append(lists, load.Turn(w.Ctx, name+": "+l.name, server.Server, nil, nil))
	}
	r = figure.Alternate(w.Ctx, w.Rounds, lists...)
	s.Remark = fmt.Sprintf("GET /workflow with %d runs; %d rounds", tracedRuns, w.Rounds)
	for _, l := range lists {
		s.Check(l.Name+" p99, best round", r.Least(l.Name, figure.P99), "ms", figure.AtMost(20))
		s.Record(l.Name+" p50, median", r.Median(l.Name, figure.P50), "ms")
		s.Medians(r, l.Name, callCPU)
	}
	w.Profile("trace-"+name+"-list", server, lists[0])
	w.Profile("trace-"+name+"-progress", server, progress)
}

// A tracer reports to a server like Nextflow.
type tracer struct {
	server *slipwayd.Server
	client *fasthttp.HostClient
	token  string
	runs   int
}

// call returns a call of the platform with the token.
func (t *tracer) call(method, path, body string) load.Call {
	return load.Call{Method: method, URL: t.server.URL("/api" + path), Body: body, Token: t.token}
}

func (t *tracer) do(method, path, body string) []byte {
	return must.Get(load.Once(t.client, t.call(method, path, body)))
}

// begin announces a run and starts it.
func (t *tracer) begin() (id string) {
	t.runs++
	var made struct {
		ID string `json:"workflowId"`
	}
	must.Do(json.Unmarshal(t.do(http.MethodPost, "/trace/create", fmt.Sprintf(
		`{"sessionId":"session-%d","runName":"lonely_%d","projectName":"nf-core/rnaseq","repository":"https://github.com/nf-core/rnaseq","instant":1}`, t.runs, t.runs)), &made))
	t.do(http.MethodPut, "/trace/"+made.ID+"/begin", fmt.Sprintf(
		`{"workflow":{"runName":"lonely_%d","sessionId":"session-%d","projectName":"nf-core/rnaseq","commandLine":"nextflow run nf-core/rnaseq -profile docker",
		"userName":"ada","start":"2026-01-31T12:00:00Z","workDir":"/work","configText":"%s","params":{"outdir":"results"}},"processNames":["A","B","C"],"instant":1}`,
		t.runs, t.runs, strings.Repeat("process.cpus = 1; ", 200)))
	return made.ID
}

// run reports the tasks of one run and measures the progress calls only.
func (t *tracer) run() figure.Sample {
	id := t.begin()
	var list []time.Duration
	used := process.Watch(t.server.Server)
	for _, status := range []string{"SUBMITTED", "RUNNING", "COMPLETED"} {
		for first := 1; first <= tracedTasks; first += tracedBatch {
			report, sent := batchOf(first, status), time.Now()
			t.do(http.MethodPut, "/trace/"+id+"/progress", report)
			list = append(list, time.Since(sent))
		}
	}
	slices.Sort(list)
	return figure.Sample{P50: figure.Percentile(list, 50), P99: figure.Percentile(list, 99), CPU: used()[0] / float64(len(list))}
}

// batchOf returns a report of tasks as nf-tower sends it.
func batchOf(first int, status string) string {
	var b strings.Builder
	b.WriteString(`{"tasks":[`)
	for id := first; id < first+tracedBatch; id++ {
		if id > first {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"taskId":%d,"hash":"ab/%06d","nativeId":"%d","process":"%c","module":[],"container":"quay.io/biocontainers/star:2.7","tag":"sample %d","name":"STAR (sample %d)",
			"status":"%s","exit":0,"submit":1769860801000,"start":1769860802000,"complete":1769860812000,"duration":11000,"realtime":10000,"pcpu":150.5,"pmem":1.2,"rss":1000000,
			"vmem":2000000,"peakRss":1000000,"peakVmem":2000000,"rchar":10,"wchar":10,"syscr":1,"syscw":1,"readBytes":10,"writeBytes":10,"volCtxt":1,"invCtxt":1,"attempt":1,
			"cpus":2,"memory":6442450944,"disk":null,"time":14400000,"workdir":"/scratch/ab/%06d","script":"%s","queue":"long","errorAction":null,"executor":"slurm"}`,
			id, id, id, "ABC"[id%3], id, id, status, id, strings.Repeat("STAR --genomeDir index ", 20))
	}
	b.WriteString(`],"progress":{"pending":0,"running":100,"peakRunning":100,"processes":[]},"containers":[],"instant":1}`)
	return b.String()
}

// fill creates runs up to the number that is listed; half of them are ended.
func (t *tracer) fill() {
	for t.runs < tracedRuns {
		if id := t.begin(); t.runs%2 == 0 {
			t.do(http.MethodPut, "/trace/"+id+"/complete", `{"workflow":{"success":true}}`)
		}
	}
}
