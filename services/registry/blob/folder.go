package blob

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway.dev/services/internal/limits"
)

// folder is a Cache in a folder of this process alone: those blobs go first that were
// used longest ago. Safe for concurrent use.
type folder struct {
	dir   string // "" keeps nothing
	limit int64
	lock  *os.File
	counts

	mu      sync.Mutex
	entries map[string]*list.Element // of keptFile, by name
	order   *list.List               // by use, the latest in front
	filling map[string]bool
	bytes   int64 // of entries, and of what is being written
}

type keptFile struct {
	name string
	size int64
	used time.Time
}

// newFolder opens the folder, with what an earlier process left there.
func newFolder(from Config) (*folder, error) {
	c := &folder{
		dir: from.Dir, limit: from.Size,
		entries: map[string]*list.Element{}, order: list.New(), filling: map[string]bool{},
	}
	c.counts = newCounts(from.Metrics, c.used)
	if c.dir == "" {
		return c, nil
	}
	if err := c.claim(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the blob cache %s: %w", c.dir, err), c.Close())
	}
	return c, nil
}

// claim makes the folder this process's own, and learns what is in it.
func (c *folder) claim() (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if c.lock, err = os.Open(c.dir); err != nil {
		return err
	}
	if err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another process uses it; set another blob_cache")
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []keptFile
	for _, e := range found {
		if f, ok := c.examine(e); ok {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b keptFile) int { return a.used.Compare(b.used) })
	for _, f := range files {
		c.add(f)
	}
	c.grow(0) // the limit may be another now
	return nil
}

// examine removes what a killed process left half done, and touches nothing of others.
func (c *folder) examine(e fs.DirEntry) (keptFile, bool) {
	size := keptName.FindStringSubmatch(e.Name())
	if size == nil && !strings.HasPrefix(e.Name(), incoming) || !e.Type().IsRegular() {
		return keptFile{}, false
	}
	info, err := e.Info()
	if err == nil && size != nil && strconv.FormatInt(info.Size(), 10) == size[1] {
		return keptFile{e.Name(), info.Size(), info.ModTime()}, true
	}
	_ = os.Remove(c.path(e.Name()))
	return keptFile{}, false
}

func (c *folder) path(name string) string { return filepath.Join(c.dir, name) }

func (c *folder) used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Close implements Cache. The folder is unlocked first: a child that is being started has the
// file, too, until it runs its program.
func (c *folder) Close() error {
	if c.lock == nil {
		return nil
	}
	return errors.Join(syscall.Flock(int(c.lock.Fd()), syscall.LOCK_UN), c.lock.Close())
}

// open returns a blob that is kept, which the caller closes; nil where it is not. It can
// be read to its end whatever leaves the cache meanwhile.
func (c *folder) open(k Key) *os.File {
	if c.dir == "" {
		return nil
	}
	name := k.name()
	if !c.use(name) {
		c.hits.RecordMisses(1)
		return nil
	}
	f, err := os.Open(c.path(name))
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() == k.Size {
			now := time.Now()
			_ = os.Chtimes(c.path(name), now, now) // only the order of removal hangs on it
			c.hits.RecordHits(1)
			return f
		}
		_ = f.Close()
	}
	c.failed.Inc()
	c.hits.RecordMisses(1)
	c.drop(name)
	return nil
}

// use says whether a file is kept, and that it is used now.
func (c *folder) use(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[name]
	if ok {
		c.order.MoveToFront(e)
	}
	return ok
}

func (c *folder) add(f keptFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[f.name] = c.order.PushFront(f)
	c.bytes += f.size
}

// drop removes a file that is not what it was.
func (c *folder) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[name]; ok {
		c.remove(e)
	}
}

// remove is called with mu held; a file that cannot be removed still counts.
func (c *folder) remove(e *list.Element) bool {
	f := e.Value.(keptFile) //nolint:forcetypeassert // the list holds nothing else
	if err := os.Remove(c.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	c.order.Remove(e)
	delete(c.entries, f.name)
	c.bytes -= f.size
	return true
}

// grow makes room for n more bytes, and says whether there is.
func (c *folder) grow(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes+n > c.limit {
		oldest := c.order.Back()
		if oldest == nil || !c.remove(oldest) {
			return false
		}
		c.evicted.Inc()
	}
	c.bytes += n
	return true
}

// Wants implements Cache.
func (c *folder) Wants(size int64) bool {
	return c.dir != "" && size > 0 && size <= c.limit/limits.BlobCacheShare
}
