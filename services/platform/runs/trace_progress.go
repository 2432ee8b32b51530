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

// RecordProgress takes tasks of a run. What was said before changes nothing, and
// the counts are moved by the difference, in one transaction.
func (s *Service) RecordProgress(ctx context.Context, req *platformv1.RecordProgressRequest) (*platformv1.RecordProgressResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, err := parseObject(req.GetBody())
	if err != nil {
		return nil, err
	}
	tasks := newest(body.list("tasks"))
	now := s.deps.Now()
	err = s.report(ctx, p, req.GetWorkflowId(), func(t *sql.Tx, w *workflow) error {
		c, err := readCountsOf(ctx, t, w.id)
		if err != nil {
			return err
		}
		before := c.String()
		for part := range slices.Chunk(tasks, batch) {
			if err := takeTasks(ctx, t, w.id, part, &c, now); err != nil {
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
	return &platformv1.RecordProgressResponse{Status: ok, WorkflowId: req.GetWorkflowId()}, nil
}

// newest reads the tasks of a report: of one that is there twice, what holds.
func newest(list []any) []task {
	at := map[int64]int{}
	var out []task
	for _, v := range list {
		t, isTask := parseTask(v)
		if !isTask {
			continue
		}
		if i, seen := at[t.id]; seen {
			if t.replaces(out[i]) {
				out[i] = t
			}
			continue
		}
		at[t.id] = len(out)
		out = append(out, t)
	}
	return out
}

// takeTasks writes those of a batch that are news, and counts them.
func takeTasks(ctx context.Context, tx *sql.Tx, workflowID string, tasks []task, c *counts, now time.Time) error {
	ids := make([]int64, len(tasks))
	for i, t := range tasks {
		ids[i] = t.id
	}
	known, err := tasksOf(ctx, tx, workflowID, ids)
	if err != nil {
		return err
	}
	var news []task
	for _, t := range tasks {
		t.created, t.updated = now, now
		was, old := known[t.id]
		var before load
		if old {
			if !t.replaces(was) {
				continue
			}
			t.created, before = was.created, was.load()
			// What an earlier report said and this one does not, still holds; its process
			// too, so that the counts stay whole.
			merged := object{}
			merged.merge(was.document, false)
			merged.merge(t.document, false)
			merged["process"] = was.document["process"]
			t.document = merged
		} else if c.tasks() >= limits.TasksPerRun {
			continue
		}
		t.document.fit(limits.TaskDocument)
		c.move(t.document.column("process"), t.document.column("executor"), before, t.load())
		news = append(news, t)
	}
	c.Total.Load.peak()
	for i := range c.Processes {
		c.Processes[i].Load.peak()
	}
	return putTasks(ctx, tx, workflowID, news)
}

// tasks is how many tasks were counted.
func (c *counts) tasks() (n int64) {
	for at := atPending; at <= atAborted; at++ {
		n += c.Total.Load[at]
	}
	return n
}

// observe takes over what only the run knows: tasks that wait to be made, and peaks
// between two reports.
func (c *counts) observe(progress object) {
	c.Total.observe(progress)
	for _, v := range progress.list("processes") {
		m, _ := v.(map[string]any)
		name := cut(strings.ReplaceAll(object(m).text("name"), "\x00", ""), indexText)
		if i := slices.IndexFunc(c.Processes, func(p counted) bool { return p.Name == name }); i >= 0 {
			c.Processes[i].observe(m)
		}
	}
}

func (c *counted) observe(o object) {
	for name, at := range map[string]int{"peakRunning": atPeakTasks, "peakCpus": atPeakCpus, "peakMemory": atPeakMemory} {
		if n, isNumber := o.number(name); isNumber {
			c.Load[at] = max(c.Load[at], n)
		}
	}
	if n, isNumber := o.number("pending"); isNumber {
		c.Waiting = max(n, 0)
	}
}

// String is the counts as they are stored.
func (c counts) String() string {
	raw, err := json.Marshal(c)
	if err != nil {
		return "" // texts and numbers always can be written
	}
	return string(raw)
}
