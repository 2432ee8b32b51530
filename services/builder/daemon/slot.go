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
	// rootGroup is the parent of all our groups.
	rootGroup = "slipway"
	// maxSlots is the maximum number of concurrent builds of a scope on a machine.
	maxSlots = 1024
)

// slot is a place for the control group of one build at a time. It belongs to the process
// that holds the lock on its folder. The lock is released when that process ends, in any
// way, so that several daemons on a machine can use the same names.
type slot struct {
	name string
	what string // what the group is for: "build" or "daemon"
	lock *os.File
}

// group returns the path of the group in the slot.
func (s slot) group() string { return s.name + "/" + s.what }

// take locks the first free slot of a name.
func (g *groups) take(name, what string) (slot, error) {
	for n := range maxSlots {
		s, err := g.acquire(fmt.Sprintf("%s/%s-%d", rootGroup, name, n))
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
		_ = s.lock.Close() // processes of an earlier build are still ending
	}
	return slot{}, errors.New("there are too many builds at once")
}

var errTaken = errors.New("the slot is taken")

// acquire locks a slot, or returns errTaken if another process has it.
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

// isAt reports whether an open folder is still the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(open, there)
}

// release releases a slot. Its group can only be removed after its last process has ended,
// which may take a moment.
func (g *groups) release(s slot) {
	if g.remove(s) {
		return
	}
	go func() {
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			if s, err := g.acquire(s.name); err != nil || g.remove(s) {
				return // its next user removes it
			}
		}
	}()
}

// remove removes a slot and its group if possible, and releases the lock.
func (g *groups) remove(s slot) bool {
	gone := g.clear(s.name)
	// Closing alone would leave it locked while another daemon is being started, which has the
	// descriptor until then.
	_ = errors.Join(syscall.Flock(int(s.lock.Fd()), syscall.LOCK_UN), s.lock.Close())
	return gone
}

// sweep removes unused slots.
func (g *groups) sweep() {
	names := map[string]bool{}
	for _, all := range g.dirs(rootGroup) {
		slots, _ := os.ReadDir(all)
		for _, dir := range slots {
			if dir.IsDir() {
				names[dir.Name()] = true
			}
		}
	}
	for name := range names {
		if s, err := g.acquire(filepath.Join(rootGroup, name)); err == nil {
			g.remove(s)
		}
	}
}

// clear removes a group and the groups below it, and reports whether that succeeded.
func (g *groups) clear(name string) bool {
	gone := true
	for _, dir := range g.dirs(name) {
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
