package daemon

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// groupsDir is where the system mounts its control groups.
const groupsDir = "/sys/fs/cgroup"

// limit is a limit of a controller. Versions 1 and 2 of control groups have different files
// and values for it.
type limit struct{ controller, file1, value1, file2, value2 string }

// limitsOf returns the configured limits. Processor time is counted in microseconds per 100
// ms.
func limitsOf(o Options) []limit {
	pids, cpu := strconv.FormatInt(o.Pids, 10), strconv.Itoa(int(o.CPUs*100_000))
	out := memoryLimit(o.Memory)
	if o.Pids > 0 {
		out = append(out, limit{"pids", "pids.max", pids, "pids.max", pids})
	}
	if o.CPUs > 0 {
		out = append(out, limit{"cpu", "cpu.cfs_quota_us", cpu, "cpu.max", cpu + " 100000"})
	}
	return out
}

// memoryLimit returns a limit of memory; none for 0.
func memoryLimit(bytes int64) []limit {
	if bytes <= 0 {
		return nil
	}
	memory := strconv.FormatInt(bytes, 10)
	return []limit{{"memory", "memory.limit_in_bytes", memory, "memory.max", memory}}
}

// groups creates control groups: one for each build, and one for the daemon.
type groups struct {
	root     string // where the system mounts its control groups
	log      *slog.Logger
	complain sync.Once
}

// newGroups removes the groups of processes that have ended.
func newGroups(root string, log *slog.Logger) *groups {
	g := &groups{root: root, log: log}
	g.sweep()
	return g
}

// dirs returns the folders of a group. In version 1 each controller has its own, and
// a step's runtime creates the group in all of them.
func (g *groups) dirs(name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(g.root, "*", name))
	return append(dirs, filepath.Join(g.root, name))
}

// group is an allocated control group. A nil group has no limits.
type group struct {
	of   *groups
	slot slot
	dirs []string
}

// make creates a group in the first free slot of a name. It returns nil if the machine does
// not allow that: then there are no limits.
func (g *groups) make(name, what string, limits []limit) *group {
	s, err := g.take(name, what)
	if err != nil {
		g.complain.Do(func() { g.log.Warn("Builds and their daemon run without limits", "err", err) })
		return nil
	}
	dirs, err := g.create(s.group(), limits)
	if err != nil {
		g.release(s)
		g.complain.Do(func() { g.log.Warn("Builds and their daemon run without limits", "err", err) })
		return nil
	}
	return &group{g, s, dirs}
}

// path returns the group's path for runc; "" for nil.
func (p *group) path() string {
	if p == nil {
		return ""
	}
	return "/" + p.slot.group()
}

func (p *group) outOfMemory() bool { return p != nil && outOfMemoryIn(p.dirs) }

// pinnedMemory returns how many bytes of the group's memory are only released when its processes
// end; 0 if unknown.
func (p *group) pinnedMemory() int64 {
	if p == nil {
		return 0
	}
	for _, dir := range p.dirs {
		raw, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if key == "total_rss" || key == "anon" { // in version 1 and in version 2
				n, _ := strconv.ParseInt(value, 10, 64)
				return n
			}
		}
	}
	return 0
}

func (p *group) release() {
	if p != nil {
		p.of.release(p.slot)
	}
}

// kill kills every process of the group and of the groups below it.
func (p *group) kill() {
	if p == nil {
		return
	}
	for _, dir := range p.of.dirs(p.slot.group()) {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.Name() != "cgroup.procs" {
				return nil //nolint:nilerr // groups come and go under us
			}
			raw, _ := os.ReadFile(path)
			for field := range strings.FieldsSeq(string(raw)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
			return nil
		})
	}
}

// create creates the group, sets its limits, and returns the created folders.
func (g *groups) create(name string, limits []limit) ([]string, error) {
	if g.isV2() {
		return g.createV2(name, limits)
	}
	return g.createV1(name, limits)
}

func (g *groups) isV2() bool {
	_, err := os.Stat(filepath.Join(g.root, "cgroup.controllers"))
	return err == nil
}

func (g *groups) createV1(name string, limits []limit) (dirs []string, err error) {
	for _, l := range limits {
		dir := filepath.Join(g.root, l.controller, name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return dirs, err
		}
		dirs = append(dirs, dir)
		if err := set(dir, l.file1, l.value1); err != nil {
			return dirs, err
		}
	}
	return dirs, nil
}

func (g *groups) createV2(name string, limits []limit) ([]string, error) {
	dir := filepath.Join(g.root, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, l := range limits {
		above := g.root
		for part := range strings.SplitSeq(name, "/") {
			if err := set(above, "cgroup.subtree_control", "+"+l.controller); err != nil {
				return dirs, err
			}
			above = filepath.Join(above, part)
		}
		if err := set(dir, l.file2, l.value2); err != nil {
			return dirs, err
		}
		if l.controller == "memory" {
			_ = set(dir, "memory.swap.max", "0") // does not exist everywhere
		}
	}
	return dirs, nil
}

func set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600)
}

// outOfMemoryIn reports whether the limit was reached. Version 1 counts kills only in the
// step's own group, which has already been deleted, so the build's count of failed
// allocations is used there.
func outOfMemoryIn(dirs []string) bool {
	for _, dir := range dirs {
		if b, err := os.ReadFile(filepath.Join(dir, "memory.failcnt")); err == nil && strings.TrimSpace(string(b)) != "0" {
			return true
		}
		if b, err := os.ReadFile(filepath.Join(dir, "memory.events")); err == nil {
			for line := range strings.Lines(string(b)) {
				if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
					return true
				}
			}
		}
	}
	return false
}
