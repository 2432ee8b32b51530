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

// groupsDir is where the system shows its control groups.
const groupsDir = "/sys/fs/cgroup"

// limit is what a controller allows a group. The two versions of control groups
// have a file for it, each in words of its own.
type limit struct{ controller, file1, value1, file2, value2 string }

// limitsOf are those that were asked for. Time of processors is counted in
// microseconds of every 100 ms.
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

// memoryLimit is one of memory alone; none for 0.
func memoryLimit(bytes int64) []limit {
	if bytes <= 0 {
		return nil
	}
	memory := strconv.FormatInt(bytes, 10)
	return []limit{{"memory", "memory.limit_in_bytes", memory, "memory.max", memory}}
}

// groups makes control groups: one for each build, and one for the daemon.
type groups struct {
	root     string // where the system shows its control groups
	log      *slog.Logger
	complain sync.Once
}

// newGroups removes what processes that are gone have left behind.
func newGroups(root string, log *slog.Logger) *groups {
	g := &groups{root: root, log: log}
	g.sweep()
	return g
}

// everywhere are the folders of a group: with version 1 each controller has its
// own, and a step's runtime makes it in all of them.
func (g *groups) everywhere(name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(g.root, "*", name))
	return append(dirs, filepath.Join(g.root, name))
}

// group is a control group that is somebody's for a while. A nil one is none.
type group struct {
	of   *groups
	slot slot
	dirs []string
}

// make makes a group for something, in the first slot of a name that is free; nil
// where the machine lets us make none: then there are no limits.
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

// path is what runc calls the group; "" for none.
func (p *group) path() string {
	if p == nil {
		return ""
	}
	return "/" + p.slot.group()
}

func (p *group) outOfMemory() bool { return p != nil && outOfMemoryIn(p.dirs) }

// held is how much memory of the group nothing but the end of its processes gives back, in
// bytes; 0 where that is not known.
func (p *group) held() int64 {
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
			if key == "total_rss" || key == "anon" { // in version 1, in version 2
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

// kill ends every process of the group and of those below it.
func (p *group) kill() {
	if p == nil {
		return
	}
	for _, dir := range p.of.everywhere(p.slot.group()) {
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

// create makes the group and sets its limits; it answers the folders it made.
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
			_ = set(dir, "memory.swap.max", "0") // not everywhere
		}
	}
	return dirs, nil
}

func set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0o600)
}

// outOfMemoryIn says whether the limit was hit. Version 1 counts kills only in a
// step's own group, which is gone by now, so there it is the build's own count of
// allocations that failed.
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
