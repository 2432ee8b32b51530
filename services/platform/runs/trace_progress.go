package runs

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/orgs"
)

// RecordProgress stores the tasks of a report and updates the counts by the difference, in one
// transaction. Repeated or outdated tasks change nothing.
func (s *Service) RecordProgress(ctx context.Context, req *platformv1.RecordProgressRequest) (*platformv1.RecordProgressResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, err := parseObject(req.GetBody())
	if err != nil {
		return nil, err
	}
	tasks := latestTasks(body.list("tasks"))
	now := s.deps.Now()
	err = s.updateRun(ctx, p, req.GetWorkflowId(), func(t *sql.Tx, w *workflow) error {
		c, err := readCountsOf(ctx, t, w.id)
		if err != nil {
			return err
		}
		before := c.String()
		for part := range slices.Chunk(tasks, batch) {
			if err := applyTasks(ctx, t, w.id, part, &c, now); err != nil {
				return err
			}
		}
		c.observe(body.object("progress"))
		if after := c.String(); after != before {
			return putCounts(ctx, t, w.id, after)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.RecordProgressResponse{Status: traceOK, WorkflowId: req.GetWorkflowId()}, nil
}

// latestTasks returns the tasks of a report. If a task occurs more than once, it returns the
// latest state.
func latestTasks(list []any) []task {
	at := map[int64]int{}
	var out []task
	for _, v := range list {
		t, isTask := parseTask(v)
		if !isTask {
			continue
		}
		if i, seen := at[t.id]; seen {
			if t.supersedes(out[i]) {
				out[i] = t
			}
			continue
		}
		at[t.id] = len(out)
		out = append(out, t)
	}
	return out
}

// applyTasks stores those tasks of a batch that change something, and counts them.
func applyTasks(ctx context.Context, tx *sql.Tx, workflowID string, tasks []task, c *counts, now time.Time) error {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.id
	}
	known, err := tasksOf(ctx, tx, workflowID, ids)
	if err != nil {
		return err
	}
	var changed []task
	for _, t := range tasks {
		t.created, t.updated = now, now
		old, exists := known[t.id]
		var before load
		if exists {
			if !t.supersedes(old) {
				continue
			}
			t.created, before = old.created, old.load()
			// Members of an earlier report that are missing from this one are retained. The
			// process never changes, so that the counts per process stay consistent.
			merged := object{}
			merged.merge(old.document, false)
			merged.merge(t.document, false)
			merged["process"] = old.document["process"]
			t.document = merged
		} else if c.tasks() >= limits.TasksPerRun {
			continue
		}
		t.document.truncate(limits.TaskDocument)
		c.replace(t.document.column("process"), t.document.column("executor"), before, t.load())
		changed = append(changed, t)
	}
	c.Total.Load.peak()
	for i := range c.Processes {
		c.Processes[i].Load.peak()
	}
	return putTasks(ctx, tx, workflowID, changed)
}

// tasks returns the number of counted tasks.
func (c *counts) tasks() (n int64) {
	for at := atPending; at <= atAborted; at++ {
		n += c.Total.Load[at]
	}
	return n
}

// observe updates the counts with the values that only the run knows: the number of tasks that
// have not been created yet, and peaks between two reports.
func (c *counts) observe(progress object) {
	c.Total.observe(progress)
	for _, v := range progress.list("processes") {
		m, _ := v.(map[string]any)
		name := truncate(strings.ReplaceAll(object(m).text("name"), "\x00", ""), maxColumnString)
		if i := slices.IndexFunc(c.Processes, func(p groupLoad) bool { return p.Name == name }); i >= 0 {
			c.Processes[i].observe(m)
		}
	}
}

func (c *groupLoad) observe(o object) {
	for name, at := range map[string]int{"peakRunning": atPeakTasks, "peakCpus": atPeakCpus, "peakMemory": atPeakMemory} {
		if n, isNumber := o.number(name); isNumber {
			c.Load[at] = max(c.Load[at], n)
		}
	}
	if n, isNumber := o.number("pending"); isNumber {
		c.Waiting = max(n, 0)
	}
}

// String returns the counts as JSON, in the stored form.
func (c counts) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return "" // unreachable: strings and numbers can be encoded
	}
	return string(raw)
}
