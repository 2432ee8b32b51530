package runs

import (
	"encoding/json"
	"fmt"
	"slices"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// load is counts of tasks and what they use, in the order of the contract.
type load [24]int64

const (
	atPending = iota
	atSubmitted
	atRunning
	atSucceeded
	atFailed
	atCached
	atIgnored
	atAborted
	atRetries
	atCpus
	atCPUTime
	atCPULoad
	atMemoryRss
	atMemoryReq
	atReadBytes
	atWriteBytes
	atVolCtxSwitch
	atInvCtxSwitch
	atLoadTasks
	atLoadCpus
	atLoadMemory
	atPeakTasks
	atPeakCpus
	atPeakMemory
)

// add counts another load in, or with sign -1 out. Peaks are kept by peak.
func (l *load) add(other load, sign int64) {
	for i := range atPeakTasks {
		l[i] += sign * other[i]
	}
}

// peak raises the peaks to what is in use now.
func (l *load) peak() {
	for i := range 3 {
		l[atPeakTasks+i] = max(l[atPeakTasks+i], l[atLoadTasks+i])
	}
}

// counted is the load of some tasks.
type counted struct {
	Name      string   `json:"name,omitempty"`
	Load      load     `json:"load"`
	Executors []string `json:"executors,omitempty"`
	// Waiting is how many tasks are still to be made, as the run says.
	Waiting int64 `json:"waiting,omitempty"`
}

// counts is what was counted of a run: kept as its tasks come in, never computed
// again.
type counts struct {
	Total     counted   `json:"total"`
	Processes []counted `json:"processes,omitempty"` // in the order they were first seen
}

// most is how many processes are counted one by one.
const most = 5000

func readCounts(s string) (counts, error) {
	var c counts
	if s == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return c, fmt.Errorf("reading counts: %w", err)
	}
	return c, nil
}

// process finds the counts of a process, or begins them; nil beyond the most.
func (c *counts) process(name string) *counted {
	i := slices.IndexFunc(c.Processes, func(p counted) bool { return p.Name == name })
	if i < 0 && len(c.Processes) >= most {
		return nil
	}
	if i < 0 {
		i = len(c.Processes)
		c.Processes = append(c.Processes, counted{Name: name})
	}
	return &c.Processes[i]
}

// move takes a task's former load out and its new one in.
func (c *counts) move(process, executor string, was, is load) {
	for _, at := range []*counted{&c.Total, c.process(process)} {
		if at == nil {
			continue
		}
		at.Load.add(was, -1)
		at.Load.add(is, 1)
		if executor != "" && len(at.Executors) < 100 && !slices.Contains(at.Executors, executor) {
			at.Executors = append(at.Executors, executor)
		}
	}
}

// shown is the counts as the contract shows them.
func (c counts) shown() *platformv1.Progress {
	p := &platformv1.Progress{WorkflowProgress: c.Total.shown(), TotalProcesses: int32(len(c.Processes))}
	for _, process := range c.Processes {
		l := process.shown()
		l.Process = &process.Name
		p.ProcessesProgress = append(p.ProcessesProgress, l)
	}
	return p
}

func (c counted) shown() *platformv1.Load {
	n := func(at int) float64 { return float64(max(c.Load[at], 0)) }
	percent := func(part, whole int) float64 {
		if c.Load[whole] <= 0 {
			return 0
		}
		return 100 * n(part) / n(whole)
	}
	return &platformv1.Load{
		Pending: n(atPending) + float64(c.Waiting), Submitted: n(atSubmitted), Running: n(atRunning), Succeeded: n(atSucceeded), Failed: n(atFailed),
		Cached: n(atCached), Ignored: n(atIgnored), Aborted: n(atAborted), Retries: n(atRetries),
		Cpus: n(atCpus), CpuTime: n(atCPUTime), CpuLoad: n(atCPULoad), MemoryRss: n(atMemoryRss), MemoryReq: n(atMemoryReq),
		ReadBytes: n(atReadBytes), WriteBytes: n(atWriteBytes), VolCtxSwitch: n(atVolCtxSwitch), InvCtxSwitch: n(atInvCtxSwitch),
		LoadTasks: n(atLoadTasks), LoadCpus: n(atLoadCpus), LoadMemory: n(atLoadMemory),
		PeakTasks: n(atPeakTasks), PeakCpus: n(atPeakCpus), PeakMemory: n(atPeakMemory),
		CpuEfficiency: percent(atCPULoad, atCPUTime), MemoryEfficiency: percent(atMemoryRss, atMemoryReq), Executors: c.Executors,
	}
}
