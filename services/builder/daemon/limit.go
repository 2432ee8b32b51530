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

// groups makes a control group for each build.
type groups struct {
	parent       string // of all groups that this daemon's builds get
	memory, pids int64
	log          *slog.Logger
	complain     sync.Once
	made         atomic.Int64
}

// newGroups removes what an earlier process with the same folder left behind.
func newGroups(dir string, memory, pids int64, log *slog.Logger) *groups {
	sum := sha256.Sum256([]byte(dir))
	g := &groups{parent: "slipway/" + hex.EncodeToString(sum[:4]), memory: memory, pids: pids, log: log}
	for _, dir := range everywhere(g.parent) {
		removeGroup(dir)
	}
	return g
}

// close removes what is left.
func (g *groups) close() { removeAll(g.parent) }

// everywhere are the folders of a group: with version 1 each controller has its
// own, and a step's runtime makes it in all of them.
func everywhere(name string) []string {
	dirs, _ := filepath.Glob(filepath.Join(groupsDir, "*", name))
	return append(dirs, filepath.Join(groupsDir, name))
}

// make makes the group of a build. Where the machine lets us make none, the build
// runs without limits: parent is "".
func (g *groups) make(build string) (parent string, outOfMemory func() bool, release func()) {
	never := func() bool { return false }
	if g.memory <= 0 && g.pids <= 0 {
		return "", never, func() {}
	}
	// A number, since a second try may begin while the first one's group goes.
	name := filepath.Join(g.parent, fmt.Sprintf("%s.%d", clean(build), g.made.Add(1)))
	dirs, err := g.create(name)
	if err != nil {
		removeAll(name)
		g.complain.Do(func() { g.log.Warn("Builds run without limits of memory and processes", "err", err) })
		return "", never, func() {}
	}
	return "/" + name, func() bool { return outOfMemoryIn(dirs) }, func() { go removeAll(name) }
}

// create makes the group and sets its limits; it answers the folders it made.
func (g *groups) create(name string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(groupsDir, "cgroup.controllers")); err == nil {
		return g.createV2(filepath.Join(groupsDir, name))
	}
	return g.createV1(name)
}

func (g *groups) createV1(name string) (dirs []string, err error) {
	for controller, file := range map[string]string{"memory": "memory.limit_in_bytes", "pids": "pids.max"} {
		limit := map[string]int64{"memory": g.memory, "pids": g.pids}[controller]
		if limit <= 0 {
			continue
		}
		dir := filepath.Join(groupsDir, controller, name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return dirs, err
		}
		dirs = append(dirs, dir)
		if err := set(dir, file, limit); err != nil {
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
	for _, above := range []string{groupsDir, filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
		if err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+memory +pids"), 0o600); err != nil {
			return dirs, err
		}
	}
	if g.memory > 0 {
		if err := set(dir, "memory.max", g.memory); err != nil {
			return dirs, err
		}
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0o600) // not everywhere
	}
	if g.pids > 0 {
		return dirs, set(dir, "pids.max", g.pids)
	}
	return dirs, nil
}

func set(dir, file string, limit int64) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0o600)
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

// removeAll removes a group and those below it. A group can go only when its last
// process has, which may take a moment.
func removeAll(name string) {
	for range 50 {
		left := false
		for _, dir := range everywhere(name) {
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
