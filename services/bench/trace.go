package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// traceSection measures what Nextflow reports to the platform: a run of 10,000
// tasks in batches of 100, and lists of 10,000 runs, on each database there is.
type traceSection struct{}

func (traceSection) name() string { return "trace" }

const (
	tracedTasks = 10_000
	tracedBatch = 100
	tracedRuns  = 10_000
)

func (traceSection) measure(ctx context.Context, w *world, s *sheet) error {
	pg, err := w.startPostgres(ctx)
	if err != nil {
		return err
	}
	databases := []struct{ name, url string }{{"sqlite", ""}}
	if pg != nil {
		defer w.fleet.stop(pg)
		databases = append(databases, struct{ name, url string }{"postgres", pg.addr})
	}
	for _, db := range databases {
		if err := traceOn(ctx, w, s, db.name, db.url); err != nil {
			return fmt.Errorf("%s: %w", db.name, err)
		}
	}
	return nil
}

func traceOn(ctx context.Context, w *world, s *sheet, name, url string) error {
	server, err := w.startSlipway(ctx, "SLIPWAY_DATABASE_URL="+url, "SLIPWAY_LIMIT_PLATFORM=1000000000/1h")
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	token, err := os.ReadFile(filepath.Join(server.data, "admin-token"))
	if err != nil {
		return err
	}
	t := &tracer{server: server, token: strings.TrimSpace(string(token))}
	progress := contender{"progress", t.run}
	r, err := alternate(ctx, w.rounds, []contender{progress})
	if err != nil {
		return err
	}
	s.remark = fmt.Sprintf("%d tasks in batches of %d, three reports of each; %d rounds", tracedTasks, tracedBatch, w.rounds)
	s.hold(name+": progress p99, best round", r.least("progress", p99)*1000, "ms", atMost(50))
	s.tell(name+": progress p99, median", r.median("progress", p99)*1000, "ms")
	s.tell(name+": progress p50, median", r.median("progress", p50)*1000, "ms")
	s.tell(name+": progress cpu", r.median("progress", cpu)*1000, "ms")
	if err := t.fill(ctx); err != nil {
		return err
	}
	var lists []contender
	for _, l := range []struct{ name, query string }{
		{"list", ""}, {"list with progress", "?attributes=progress"}, {"last page", "?max=100&offset=9900"}, {"search", "?search=nf-core+lonely_777"},
		{"search nothing", "?search=nothing"}, {"search status", "?search=status:SUCCEEDED"},
	} {
		load := load{host: server.addr, call: t.call(http.MethodGet, "/workflow"+l.query, ""), workers: 1, count: 200}
		lists = append(lists, contender{l.name, func(ctx context.Context) (sample, error) { return load.metered(ctx, server, nil, nil) }})
	}
	if r, err = alternate(ctx, w.rounds, lists); err != nil {
		return err
	}
	s.remark = fmt.Sprintf("GET /workflow with %d runs; %d rounds", tracedRuns, w.rounds)
	for _, l := range lists {
		s.hold(name+": "+l.name+" p99, best round", r.least(l.name, p99)*1000, "ms", atMost(20))
		s.tell(name+": "+l.name+" p50, median", r.median(l.name, p50)*1000, "ms")
		s.tell(name+": "+l.name+" cpu", r.median(l.name, cpu)*1000, "ms")
	}
	if err := w.profile(ctx, "trace-"+name+"-list", server, lists[0]); err != nil {
		return err
	}
	return w.profile(ctx, "trace-"+name+"-progress", server, progress)
}

// tracer is a Nextflow that reports to a server.
type tracer struct {
	server *server
	token  string
	runs   int
}

// call is a call of the platform with the token.
func (t *tracer) call(method, path, body string) call {
	return call{
		raw: fmt.Appendf(nil, "%s /api%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			method, path, t.server.addr, t.token, len(body), body),
		request: &http.Request{Method: method},
		want:    http.StatusOK,
	}
}

// begin announces a run and starts it.
func (t *tracer) begin(c *conn) (id string, err error) {
	t.runs++
	var answer bytes.Buffer
	create := fmt.Sprintf(`{"sessionId":"session-%d","runName":"lonely_%d","projectName":"nf-core/rnaseq","repository":"https://github.com/nf-core/rnaseq","instant":1}`, t.runs, t.runs)
	if _, _, err := c.do(t.call(http.MethodPost, "/trace/create", create), &answer); err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"workflowId"`
	}
	if err := json.Unmarshal(answer.Bytes(), &made); err != nil {
		return "", err
	}
	body := fmt.Sprintf(`{"workflow":{"runName":"lonely_%d","sessionId":"session-%d","projectName":"nf-core/rnaseq","commandLine":"nextflow run nf-core/rnaseq -profile docker",
		"userName":"ada","start":"2026-01-31T12:00:00Z","workDir":"/work","configText":"%s","params":{"outdir":"results"}},"processNames":["A","B","C"],"instant":1}`,
		t.runs, t.runs, strings.Repeat("process.cpus = 1; ", 200))
	_, _, err = c.do(t.call(http.MethodPut, "/trace/"+made.ID+"/begin", body), nil)
	return made.ID, err
}

// run reports the tasks of one run, and measures the progress calls alone.
func (t *tracer) run(ctx context.Context) (sample, error) {
	c, err := dial(ctx, t.server.addr)
	if err != nil {
		return sample{}, err
	}
	defer c.hangUp()
	id, err := t.begin(c)
	if err != nil {
		return sample{}, err
	}
	var took []time.Duration
	m, err := watch(t.server)
	if err != nil {
		return sample{}, err
	}
	for _, status := range []string{"SUBMITTED", "RUNNING", "COMPLETED"} {
		for first := 1; first <= tracedTasks; first += tracedBatch {
			report := t.call(http.MethodPut, "/trace/"+id+"/progress", batchOf(first, status))
			start := time.Now()
			if _, _, err := c.do(report, nil); err != nil {
				return sample{}, err
			}
			took = append(took, time.Since(start))
		}
	}
	used, err := m.used()
	if err != nil {
		return sample{}, err
	}
	slices.Sort(took)
	return sample{p50: percentile(took, 50).Seconds(), p99: percentile(took, 99).Seconds(), cpu: used[0].Seconds() / float64(len(took))}, nil
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
func (t *tracer) fill(ctx context.Context) error {
	c, err := dial(ctx, t.server.addr)
	if err != nil {
		return err
	}
	defer c.hangUp()
	for t.runs < tracedRuns {
		id, err := t.begin(c)
		if err != nil {
			return err
		}
		if t.runs%2 == 0 {
			if _, _, err := c.do(t.call(http.MethodPut, "/trace/"+id+"/complete", `{"workflow":{"success":true}}`), nil); err != nil {
				return err
			}
		}
	}
	return nil
}
