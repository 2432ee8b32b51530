package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	tracedTasks = 10_000
	tracedBatch = 100
	tracedRuns  = 10_000
)

// callCPU is processor time of calls that take long.
var callCPU = metric{"cpu", "ms", func(s sample) float64 { return s.cpu * 1e3 }}

// measureTrace measures what Nextflow reports to the platform: a run of 10,000
// tasks in batches of 100, and lists of 10,000 runs, on each database there is.
func measureTrace(w *world, s *sheet) {
	w.traceOn(s, "sqlite", "")
	if postgresPrograms() != "" {
		w.traceOn(s, "postgres", w.startPostgres().addr)
	}
}

func (w *world) traceOn(s *sheet, name, database string) {
	server := w.startSlipway("SLIPWAY_DATABASE_URL=" + database)
	defer server.stop()
	t := &tracer{server: server, client: client(server.url("/"), 1), token: server.token()}
	progress := contender{name + ": progress", t.run}
	r := alternate(w.ctx, w.rounds, progress)
	s.remark = fmt.Sprintf("%d tasks in batches of %d, three reports of each; %d rounds", tracedTasks, tracedBatch, w.rounds)
	s.hold(progress.name+" p99, best round", r.least(progress.name, p99), "ms", atMost(50))
	s.tell(progress.name+" p99, median", r.median(progress.name, p99), "ms")
	s.tell(progress.name+" p50, median", r.median(progress.name, p50), "ms")
	s.medians(r, progress.name, callCPU)
	t.fill()
	var lists []contender
	for _, l := range []struct{ name, query string }{
		{"list", ""}, {"list with progress", "?attributes=progress"}, {"last page", "?max=100&offset=9900"}, {"search", "?search=nf-core+lonely_777"},
		{"search nothing", "?search=nothing"}, {"search status", "?search=status:SUCCEEDED"},
	} {
		load := load{call: t.call(http.MethodGet, "/workflow"+l.query, ""), workers: 1, count: 200}
		lists = append(lists, load.turn(w.ctx, name+": "+l.name, server.server, nil, nil))
	}
	r = alternate(w.ctx, w.rounds, lists...)
	s.remark = fmt.Sprintf("GET /workflow with %d runs; %d rounds", tracedRuns, w.rounds)
	for _, l := range lists {
		s.hold(l.name+" p99, best round", r.least(l.name, p99), "ms", atMost(20))
		s.tell(l.name+" p50, median", r.median(l.name, p50), "ms")
		s.medians(r, l.name, callCPU)
	}
	w.profile("trace-"+name+"-list", server, lists[0])
	w.profile("trace-"+name+"-progress", server, progress)
}

// tracer is a Nextflow that reports to a server.
type tracer struct {
	server *slipwayServer
	client *fasthttp.HostClient
	token  string
	runs   int
}

// call is a call of the platform with the token.
func (t *tracer) call(method, path, body string) call {
	return call{method: method, url: t.server.url("/api" + path), body: body, token: t.token}
}

func (t *tracer) do(method, path, body string) []byte {
	return must(once(t.client, t.call(method, path, body)))
}

// begin announces a run and starts it.
func (t *tracer) begin() (id string) {
	t.runs++
	var made struct {
		ID string `json:"workflowId"`
	}
	check(json.Unmarshal(t.do(http.MethodPost, "/trace/create", fmt.Sprintf(
		`{"sessionId":"session-%d","runName":"lonely_%d","projectName":"nf-core/rnaseq","repository":"https://github.com/nf-core/rnaseq","instant":1}`, t.runs, t.runs)), &made))
	t.do(http.MethodPut, "/trace/"+made.ID+"/begin", fmt.Sprintf(
		`{"workflow":{"runName":"lonely_%d","sessionId":"session-%d","projectName":"nf-core/rnaseq","commandLine":"nextflow run nf-core/rnaseq -profile docker",
		"userName":"ada","start":"2026-01-31T12:00:00Z","workDir":"/work","configText":"%s","params":{"outdir":"results"}},"processNames":["A","B","C"],"instant":1}`,
		t.runs, t.runs, strings.Repeat("process.cpus = 1; ", 200)))
	return made.ID
}

// run reports the tasks of one run, and measures the progress calls alone.
func (t *tracer) run() sample {
	id := t.begin()
	var list []time.Duration
	used := watch(t.server.server)
	for _, status := range []string{"SUBMITTED", "RUNNING", "COMPLETED"} {
		for first := 1; first <= tracedTasks; first += tracedBatch {
			report, sent := batchOf(first, status), time.Now()
			t.do(http.MethodPut, "/trace/"+id+"/progress", report)
			list = append(list, time.Since(sent))
		}
	}
	slices.Sort(list)
	return sample{p50: percentile(list, 50), p99: percentile(list, 99), cpu: used()[0] / float64(len(list))}
}

// batchOf is a report of tasks as nf-tower sends it.
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

// fill makes runs until there are as many as are listed; half of them end.
func (t *tracer) fill() {
	for t.runs < tracedRuns {
		if id := t.begin(); t.runs%2 == 0 {
			t.do(http.MethodPut, "/trace/"+id+"/complete", `{"workflow":{"success":true}}`)
		}
	}
}
