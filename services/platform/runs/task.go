package runs

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// A task is a row of platform_tasks.
type task struct {
	id               int64
	status           string
	document         object
	created, updated time.Time
}

// rank returns the position of a status in the life of a task; -1 for an unknown status. A
// report never replaces a status with a higher rank.
func rank(status string) int {
	return slices.IndexFunc([][]string{{"NEW"}, {"SUBMITTED"}, {"RUNNING"}, {"COMPLETED", "FAILED", "ABORTED", "CACHED"}},
		func(same []string) bool { return slices.Contains(same, status) })
}

// parseTask returns a task of a report; false if v is not a task. The status of a task with an
// unknown status is NEW.
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
	truncateStrings(m, maxTaskString)
	return t, true
}

// supersedes reports whether t changes the task that old describes.
func (t task) supersedes(old task) bool {
	if t.status == old.status {
		return t.document.String() != old.document.String()
	}
	return rank(t.status) > rank(old.status)
}

// load returns the task's contribution to the counts.
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

// searchableText returns the text that searches for words match.
func (t task) searchableText() string {
	return strings.ToLower(strings.Join([]string{t.document.column("name"), t.document.column("process"), t.document.column("hash"), t.status}, "\n"))
}

// unknownExit is the exit status that Nextflow sends if it is unknown.
const unknownExit = 1<<31 - 1

// toProto returns the task in the form of the contract.
func (t task) toProto() *platformv1.Document {
	doc := object{}
	doc.merge(t.document, false)
	doc.toText(taskTextMembers())
	var exit any
	if n, ok := t.document.number("exit"); ok && n != unknownExit {
		exit = json.Number(itoa(n))
	}
	doc["exit"], doc["exitStatus"] = exit, exit
	for _, name := range []string{"submit", "start", "complete"} {
		if at := doc.time(name); !at.IsZero() {
			doc[name] = formatTime(at)
		}
	}
	doc.merge(object{
		"id": t.id, "taskId": t.id, "status": t.status,
		"dateCreated": formatTime(t.created), "lastUpdated": formatTime(t.updated),
	}, false)
	return doc.toProto()
}
