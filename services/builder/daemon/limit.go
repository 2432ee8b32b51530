package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
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
	parent   string // of all groups that this daemon's builds get
	limits   []limit
	log      *slog.Logger
	complain sync.Once
	made     atomic.Int64
}

// newGroups removes what an earlier process with the same folder left behind.
func newGroups(root string, o Options) *groups {
	sum := sha256.Sum256([]byte(o.Dir))
	g := &groups{root: root, parent: "slipway/" + hex.EncodeToString(sum[:4]), limits: limits(o), log: o.Log}
	for _, dir := range g.everywhere(g.parent) {
		removeGroup(dir)
	}
	return g
}

// close removes what is left.
func (g *groups) close() { g.remove(g.parent) }

// everywhere are the folders of a group: with version 1 each controller has its
// own, and a step's runtime makes it in all of them.
func (g *groups) everywhere(name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(g.root, "*", name))
	return append(dirs, filepath.Join(g.root, name))
}

// make makes the group of a build. Where the machine lets us make none, the build
// runs without limits: parent is "".
func (g *groups) make(build string) (parent string, outOfMemory func() bool, release func()) {
	never := func() bool { return false }
	if len(g.limits) == 0 {
		return "", never, func() {}
	}
	// A number, since a second try may begin while the first one's group goes.
	name := filepath.Join(g.parent, fmt.Sprintf("%s.%d", clean(build), g.made.Add(1)))
	dirs, err := g.create(name)
	if err != nil {
		g.remove(name)
		g.complain.Do(func() { g.log.Warn("Builds run without limits", "err", err) })
		return "", never, func() {}
	}
	return "/" + name, func() bool { return outOfMemoryIn(dirs) }, func() { go g.remove(name) }
}

// create makes the group and sets its limits; it answers the folders it made.
func (g *groups) create(name string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(g.root, "cgroup.controllers")); err == nil {
		return g.createV2(filepath.Join(g.root, name))
	}
	return g.createV1(name)
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

func (g *groups) createV2(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	dirs := []string{dir}
	for _, l := range g.limits {
		for _, above := range []string{g.root, filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
			if err := set(above, "cgroup.subtree_control", "+"+l.controller); err != nil {
				return dirs, err
			}
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

// remove removes a group and those below it. A group can go only when its last
// process has, which may take a moment.
func (g *groups) remove(name string) {
	for range 50 {
		left := false
		for _, dir := range g.everywhere(name) {
			left = !removeGroup(dir) || left
		}
		if !left {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func removeGroup(dir string) bool {
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	err := os.Remove(dir)
	return err == nil || os.IsNotExist(err)
}

// clean makes a group's name of a build's id.
func clean(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, id)
}
