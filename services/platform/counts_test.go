package platform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A report is a task as a run reports it.
type report map[string]any

// A tally holds counts by their names in the contract.
type tally map[string]float64

// recompute counts tasks as the contract describes. It shares no code with the implementation.
func recompute(tasks []report) tally {
	t := tally{}
	for _, r := range tasks {
		n := func(name string) float64 { f, _ := r[name].(float64); return f }
		status, _ := r["status"].(string)
		action, _ := r["errorAction"].(string)
		switch {
		case status == "FAILED" && action == "IGNORE":
			t["ignored"]++
		case status == "FAILED" && action == "RETRY":
			t["failed"]++
			t["retries"]++
		default:
			t[map[string]string{
				"NEW": "pending", "SUBMITTED": "submitted", "RUNNING": "running", "COMPLETED": "succeeded", "FAILED": "failed", "CACHED": "cached", "ABORTED": "aborted",
			}[status]]++
		}
		switch status {
		case "RUNNING":
			t["loadTasks"]++
			t["loadCpus"] += n("cpus")
			t["loadMemory"] += n("memory")
		case "COMPLETED", "FAILED":
			t["cpus"] += n("cpus")
			t["cpuTime"] += n("cpus") * n("realtime")
			t["cpuLoad"] += n("pcpu") * n("realtime") / 100
			for to, from := range map[string]string{
				"memoryRss": "peakRss", "memoryReq": "memory", "readBytes": "readBytes", "writeBytes": "writeBytes", "volCtxSwitch": "volCtxt", "invCtxSwitch": "invCtxt",
			} {
				t[to] += n(from)
			}
		}
	}
	maps.DeleteFunc(t, func(_ string, n float64) bool { return n == 0 })
	return t
}

// tallyOf returns the counts of a response, without peaks and percentages: peaks depend on
// earlier reports, and percentages on the other counts.
func tallyOf(t *testing.T, l *platformv1.Load) tally {
	t.Helper()
	raw, err := protojson.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	out := tally{}
	for name, v := range all {
		n, isNumber := v.(float64)
		if isNumber && n != 0 && !strings.HasPrefix(name, "peak") && !strings.HasSuffix(name, "Efficiency") {
			out[name] = n
		}
	}
	return out
}

// random returns a random report, with numbers whose sums are exact.
func random(r *rand.Rand, id int, status string) report {
	return report{
		"taskId": float64(id), "status": status, "process": fmt.Sprintf("P%d", id%4), "name": fmt.Sprintf("P (%d) ü", id), "hash": fmt.Sprintf("aa/%06d", id),
		"errorAction": []string{"", "RETRY", "IGNORE", "TERMINATE"}[r.IntN(4)], "executor": "slurm", "cpus": float64(r.IntN(8)), "memory": float64(r.IntN(1 << 30)),
		"realtime": float64(100 * r.IntN(1000)), "pcpu": float64(r.IntN(800)), "peakRss": float64(r.IntN(1 << 30)), "readBytes": float64(r.IntN(1 << 20)),
		"writeBytes": float64(r.IntN(1 << 20)), "volCtxt": float64(r.IntN(100)), "invCtxt": float64(r.IntN(100)),
	}
}

func (r *reporter) sends(reports []report) {
	r.t.Helper()
	for part := range slices.Chunk(reports, 100) {
		raw, err := json.Marshal(map[string]any{"tasks": part, "instant": 1})
		if err != nil {
			r.t.Fatal(err)
		}
		wantError(r.t, "a report", r.progress(string(raw)), nil)
	}
}

// checkCounts compares the counts with the stored tasks, in total and by process.
func (r *reporter) checkCounts() tally {
	t := r.t
	t.Helper()
	list := must(r.client.ListTasks(r.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &r.ws, WorkflowId: r.id, Max: new(int32(1000))}))(t)
	by := map[string][]report{}
	for _, item := range list.GetTasks() {
		doc := members(t, item.GetDocument())
		process, _ := doc["process"].(string)
		by[process], by["total"] = append(by[process], doc), append(by["total"], doc)
	}
	p := must(r.client.GetWorkflowProgress(r.as("view"), &platformv1.GetWorkflowProgressRequest{WorkspaceId: &r.ws, WorkflowId: r.id}))(t).GetProgress()
	if d := cmp.Diff(recompute(by["total"]), tallyOf(t, p.GetWorkflowProgress())); d != "" {
		t.Errorf("the counts differ from those of the tasks (-tasks +counts):\n%s", d)
	}
	for _, l := range p.GetProcessesProgress() {
		if d := cmp.Diff(recompute(by[l.GetProcess()]), tallyOf(t, l)); d != "" {
			t.Errorf("process %s differs (-tasks +counts):\n%s", l.GetProcess(), d)
		}
	}
	return tallyOf(t, p.GetWorkflowProgress())
}

// TestCountsInAnyOrder checks that the counts do not depend on the order of reports, nor on
// repetitions.
func TestCountsInAnyOrder(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		var story []report
		for id := range 150 {
			end := random(r, id, []string{"COMPLETED", "FAILED", "ABORTED", "CACHED"}[r.IntN(4)])
			for _, status := range []string{"NEW", "SUBMITTED", "RUNNING"}[:r.IntN(4)] {
				early := maps.Clone(end)
				early["status"] = status
				story = append(story, early)
			}
			if r.IntN(4) > 0 || len(story) == 0 {
				story = append(story, end)
			}
		}
		// The set of reports is fixed; their order is random.
		w := newWorld(t, db)
		var first tally
		for n := range 6 {
			run := &reporter{world: w, who: "launch"}
			run.id = run.create(fmt.Sprintf(`{"sessionId":"s","runName":"n%d"}`, n))
			run.begin(`{"workflow":{},"processNames":["P0","P1"]}`)
			if n > 0 {
				for range 200 {
					story = append(story, story[r.IntN(len(story))])
				}
				r.Shuffle(len(story), func(i, j int) { story[i], story[j] = story[j], story[i] })
			}
			run.sends(story)
			now := run.checkCounts()
			if first == nil {
				first = now
			}
			if d := cmp.Diff(first, now); d != "" {
				t.Errorf("in order %d (-first +now):\n%s", n, d)
			}
		}
	})
}

// TestCountsOfAnything checks that the counts match the stored tasks, also after contradictory
// reports.
func TestCountsOfAnything(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		run := begun(t, db)
		for range 30 {
			var some []report
			for range 1 + r.IntN(150) {
				one := random(r, r.IntN(80), []string{"NEW", "SUBMITTED", "RUNNING", "COMPLETED", "FAILED", "ABORTED", "CACHED", "NEVER HEARD"}[r.IntN(8)])
				one["process"] = fmt.Sprintf("P%d", r.IntN(6)) // another process than before
				for range r.IntN(3) {
					delete(one, []string{"cpus", "memory", "process", "realtime", "pcpu"}[r.IntN(5)])
				}
				some = append(some, one)
			}
			run.sends(some)
		}
		run.checkCounts()
	})
}
