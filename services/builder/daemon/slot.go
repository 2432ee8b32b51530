package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// groupsOfAll is the group that all of ours are in.
	groupsOfAll = "slipway"
	// mostSlots is how many builds of a scope can run at once on a machine.
	mostSlots = 1024
)

// slot is a place for the control group of one build at a time. It belongs to who
// has the lock on its folder, and the lock goes with its process, however that
// ends: so daemons can share a machine and its names.
type slot struct {
	name string
	what string // of whom its group is: "build" or "daemon"
	lock *os.File
}

// group is the group in the slot.
func (s slot) group() string { return s.name + "/" + s.what }

// take takes the first slot of a name that is free.
func (g *groups) take(name, what string) (slot, error) {
	for n := range mostSlots {
		s, err := g.acquire(fmt.Sprintf("%s/%s-%d", groupsOfAll, name, n))
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			return slot{}, err
		}
		s.what = what
		if g.clear(s.group()) {
			return s, nil
		}
		_ = s.lock.Close() // processes of a former build are still ending
	}
	return slot{}, errors.New("there are too many builds at once")
}

var errTaken = errors.New("the slot is taken")

// acquire takes a slot; errTaken where somebody else has it.
func (g *groups) acquire(name string) (slot, error) {
	dir := filepath.Join(g.root, name)
	if !g.isV2() {
		dir = filepath.Join(g.root, "memory", name)
	}
	for {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return slot{}, err
		}
		f, err := os.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its last user has just removed it
		}
		if err != nil {
			return slot{}, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = f.Close()
			return slot{}, errTaken
		}
		if isAt(f, dir) {
			return slot{name: name, lock: f}, nil
		}
		_ = f.Close()
	}
}

// isAt says whether an open folder is still the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

// release gives a slot back. Its group can go only when its last process has,
// which may take a moment.
func (g *groups) release(s slot) {
	if g.remove(s) {
		return
	}
	go func() {
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if s, err := g.acquire(s.name); err != nil || g.remove(s) {
				return // the next one to use it removes it
			}
		}
	}()
}

// remove removes a slot and its group if it can, and gives the lock back.
func (g *groups) remove(s slot) bool {
	gone := g.clear(s.name)
	_ = s.lock.Close()
	return gone
}

// sweep removes slots that nobody uses.
func (g *groups) sweep() {
	names := map[string]bool{}
	for _, all := range g.everywhere(groupsOfAll) {
		slots, _ := os.ReadDir(all)
		for _, dir := range slots {
			if dir.IsDir() {
				names[dir.Name()] = true
			}
		}
	}
	for name := range names {
		if s, err := g.acquire(filepath.Join(groupsOfAll, name)); err == nil {
			g.remove(s)
		}
	}
}

// clear removes a group and those below it; it says whether they are gone.
func (g *groups) clear(name string) bool {
	gone := true
	for _, dir := range g.everywhere(name) {
		gone = removeGroup(dir) && gone
	}
	return gone
}

func removeGroup(dir string) bool {
	below, _ := os.ReadDir(dir)
	for _, e := range below {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	err := os.Remove(dir)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
