package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// groupsDir is where the system shows its control groups.
const groupsDir = "/sys/fs/cgroup"

// limit is what a controller allows a group. The two versions of control groups
// have a file for it, each in words of its own.
type limit struct{ controller, file1, value1, file2, value2 string }

// limits are those that were asked for. Time of processors is counted in
// microseconds of every 100 ms.
func limits(o Options) (out []limit) {
	memory, pids, cpu := strconv.FormatInt(o.Memory, 10), strconv.FormatInt(o.Pids, 10), strconv.Itoa(int(o.CPUs*100_000))
	if o.Memory > 0 {
		out = append(out, limit{"memory", "memory.limit_in_bytes", memory, "memory.max", memory})
	}
	if o.Pids > 0 {
		out = append(out, limit{"pids", "pids.max", pids, "pids.max", pids})
	}
	if o.CPUs > 0 {
		out = append(out, limit{"cpu", "cpu.cfs_quota_us", cpu, "cpu.max", cpu + " 100000"})
	}
	return out
}

// groups makes a control group for each build.
type groups struct {
	root     string // where the system shows its control groups
	limits   []limit
	log      *slog.Logger
	complain sync.Once
}

// newGroups removes what processes that are gone have left behind.
func newGroups(root string, o Options) *groups {
	g := &groups{root: root, limits: limits(o), log: o.Log}
	g.sweep()
	return g
}

// everywhere are the folders of a group: with version 1 each controller has its
// own, and a step's runtime makes it in all of them.
func (g *groups) everywhere(name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(g.root, "*", name))
	return append(dirs, filepath.Join(g.root, name))
}

// make makes the group of a build. BuildKit finds a step in its cache only under
// the same parent, so that is named after the scope, and after nothing that
// differs between one build and the next. Where the machine lets us make no
// group, the build runs without limits: parent is "".
func (g *groups) make(scope string) (parent string, outOfMemory func() bool, release func()) {
	never := func() bool { return false }
	if len(g.limits) == 0 {
		return "", never, func() {}
	}
	s, err := g.take(scope)
	if err != nil {
		g.complain.Do(func() { g.log.Warn("Builds run without limits", "err", err) })
		return "", never, func() {}
	}
	dirs, err := g.create(s.group())
	if err != nil {
		g.release(s)
		g.complain.Do(func() { g.log.Warn("Builds run without limits", "err", err) })
		return "", never, func() {}
	}
	return "/" + s.group(), func() bool { return outOfMemoryIn(dirs) }, func() { g.release(s) }
}

// create makes the group and sets its limits; it answers the folders it made.
func (g *groups) create(name string) ([]string, error) {
	if g.isV2() {
		return g.createV2(name)
	}
	return g.createV1(name)
}

func (g *groups) isV2() bool {
	_, err := os.Stat(filepath.Join(g.root, "cgroup.controllers"))
	return err == nil
}

func (g *groups) createV1(name string) (dirs []string, err error) {
	for _, l := range g.limits {
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

func (g *groups) createV2(name string) ([]string, error) {
	dir := filepath.Join(g.root, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, l := range g.limits {
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
