package runs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// task is a row of platform_tasks.
type task struct {
	id               int64
	status           string
	document         object
	created, updated time.Time
}

// rank orders the states of a task: a later one is never undone by an earlier
// one; -1 is no state.
func rank(status string) int {
	return slices.IndexFunc([][]string{{"NEW"}, {"SUBMITTED"}, {"RUNNING"}, {"COMPLETED", "FAILED", "ABORTED", "CACHED"}},
		func(same []string) bool { return slices.Contains(same, status) })
}

// parseTask reads a task of a report; false for what is none. One without a
// state is new.
func parseTask(v any) (task, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return task{}, false
	}
	o := object(m)
	id, ok := o.number("taskId")
	if !ok || id < 0 {
		return task{}, false
	}
	t := task{id: id, status: o.text("status"), document: o}
	if rank(t.status) < 0 {
		t.status = "NEW"
	}
	shorten(m, taskText)
	return t, true
}

// replaces says whether a report is news after another.
func (t task) replaces(was task) bool {
	if t.status == was.status {
		return t.document.String() != was.document.String()
	}
	return rank(t.status) > rank(was.status)
}

// load is what the task counts for.
func (t task) load() load {
	var l load
	n := func(name string) int64 { v, _ := t.document.number(name); return max(v, 0) }
	switch t.status {
	case "NEW":
		l[atPending] = 1
	case "SUBMITTED":
		l[atSubmitted] = 1
	case "RUNNING":
		l[atRunning], l[atLoadTasks], l[atLoadCpus], l[atLoadMemory] = 1, 1, n("cpus"), n("memory")
	case "CACHED":
		l[atCached] = 1
	case "ABORTED":
		l[atAborted] = 1
	case "COMPLETED":
		l[atSucceeded] = 1
	case "FAILED":
		l[atFailed] = 1
		switch strings.ToUpper(t.document.text("errorAction")) {
		case "IGNORE":
			l[atFailed], l[atIgnored] = 0, 1
		case "RETRY":
			l[atRetries] = 1
		}
	}
	if t.status != "COMPLETED" && t.status != "FAILED" {
		return l
	}
	l[atCpus] = n("cpus")
	l[atCPUTime] = n("cpus") * n("realtime")
	l[atCPULoad] = int64(math.Round(max(t.document.fraction("pcpu"), 0) * float64(n("realtime")) / 100))
	l[atMemoryRss], l[atMemoryReq] = n("peakRss"), n("memory")
	l[atReadBytes], l[atWriteBytes] = n("readBytes"), n("writeBytes")
	l[atVolCtxSwitch], l[atInvCtxSwitch] = n("volCtxt"), n("invCtxt")
	return l
}

// searched is what free text is looked for in.
func (t task) searched() string {
	return strings.ToLower(strings.Join([]string{t.document.column("name"), t.document.column("process"), t.document.column("hash"), t.status}, "\n"))
}

// unknownExit is what a run sends when nobody knows.
const unknownExit = 1<<31 - 1

// shown is the task as the contract shows it.
func (t task) shown() *platformv1.Document {
	doc := object{}
	doc.merge(t.document, false)
	var exit any
	if n, ok := t.document.number("exit"); ok && n != unknownExit {
		exit = json.Number(itoa(n))
	}
	doc["exit"], doc["exitStatus"] = exit, exit
	for _, name := range []string{"submit", "start", "complete"} {
		if at := doc.time(name); !at.IsZero() {
			doc[name] = stamp(at)
		}
	}
	doc.merge(object{
		"id": t.id, "taskId": t.id, "status": t.status,
		"dateCreated": stamp(t.created), "lastUpdated": stamp(t.updated),
	}, false)
	return doc.shown()
}
