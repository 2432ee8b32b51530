package runs

import (
	"encoding/json"
	"fmt"
	"slices"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
)

// A load holds task counts and resource usage, in the order of the contract's fields.
type load [24]int64

// Indexes of a load.
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

// add adds sign times other to l, except for the peaks, which peak updates.
func (l *load) add(other load, sign int64) {
	for i := range atPeakTasks {
		l[i] += sign * other[i]
	}
}

// peak raises the peaks to the current usage.
func (l *load) peak() {
	for i := range 3 {
		l[atPeakTasks+i] = max(l[atPeakTasks+i], l[atLoadTasks+i])
	}
}

// A groupLoad is the load of a group of tasks: of one process, or of all.
type groupLoad struct {
	Name      string   `json:"name,omitempty"`
	Load      load     `json:"load"`
	Executors []string `json:"executors,omitempty"`
	// Waiting is the number of tasks that have not been created yet, as the run reports it.
	Waiting int64 `json:"waiting,omitempty"`
}

// counts are the loads of a run. They are updated with each report of tasks and never computed
// again from the stored tasks.
type counts struct {
	Total     groupLoad   `json:"total"`
	Processes []groupLoad `json:"processes,omitempty"` // in the order of their first report
}

// readCounts decodes stored counts; "" is decoded as no counts.
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

// process returns the load of a process and adds it if needed. It returns nil when the limit is
// reached.
func (c *counts) process(name string) *groupLoad {
	i := slices.IndexFunc(c.Processes, func(p groupLoad) bool { return p.Name == name })
	if i < 0 && len(c.Processes) >= limits.ProcessesPerRun {
		return nil
	}
	if i < 0 {
		i = len(c.Processes)
		c.Processes = append(c.Processes, groupLoad{Name: name})
	}
	return &c.Processes[i]
}

// replace subtracts the old load of a task and adds its new one.
func (c *counts) replace(process, executor string, before, after load) {
	for _, at := range []*groupLoad{&c.Total, c.process(process)} {
		if at == nil {
			continue
		}
		at.Load.add(before, -1)
		at.Load.add(after, 1)
		if executor != "" && len(at.Executors) < limits.ExecutorsPerProcess && !slices.Contains(at.Executors, executor) {
			at.Executors = append(at.Executors, executor)
		}
	}
}

// toProto returns the counts in the form of the contract.
func (c counts) toProto() *platformv1.Progress {
	p := &platformv1.Progress{WorkflowProgress: c.Total.toProto(), TotalProcesses: int32(len(c.Processes))}
	for _, process := range c.Processes {
		l := process.toProto()
		l.Process = &process.Name
		p.ProcessesProgress = append(p.ProcessesProgress, l)
	}
	return p
}

func (c groupLoad) toProto() *platformv1.Load {
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
