package blob

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"slipway.dev/services/internal/limits"
)

// A folder is a Cache in a folder of this process. The least recently used blobs are
// evicted first. It is safe for concurrent use.
type folder struct {
	dir   string // "" caches nothing
	limit int64
	// diskFull is Config.DiskFull.
	diskFull func() error
	lock     *os.File
	counts

	mu      sync.Mutex
	entries map[string]*list.Element // of cachedFile, by name
	order   *list.List               // most recently used first
	filling map[string]bool
	bytes   int64 // total of entries and unfinished files
}

type cachedFile struct {
	name string
	size int64 // as charged
	used time.Time
}

// newFolder opens the folder with the blobs that an earlier process left.
func newFolder(from Config) (*folder, error) {
	c := &folder{
		dir: from.Dir, limit: from.Size, diskFull: from.DiskFull,
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

// claim locks the folder and lists its blobs.
func (c *folder) claim() (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if c.lock, err = os.Open(c.dir); err != nil {
		return err
	}
	if err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("it is in use by another process; set a different blob_cache")
	}
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []cachedFile
	for _, e := range found {
		if f, ok := c.examine(e); ok {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b cachedFile) int { return a.used.Compare(b.used) })
	for _, f := range files {
		c.add(f)
	}
	c.grow(0) // the limit may have changed
	return nil
}

// examine returns a cached file. It deletes incomplete files of a killed process and
// ignores others.
func (c *folder) examine(e fs.DirEntry) (cachedFile, bool) {
	size := cachedName.FindStringSubmatch(e.Name())
	if size == nil && !strings.HasPrefix(e.Name(), incoming) || !e.Type().IsRegular() {
		return cachedFile{}, false
	}
	info, err := e.Info()
	if err == nil && size != nil && hasSize(size, info.Size()) {
		return cachedFile{e.Name(), charged(size, info.Size()), info.ModTime()}, true
	}
	_ = os.Remove(c.path(e.Name()))
	return cachedFile{}, false
}

func (c *folder) path(name string) string { return filepath.Join(c.dir, name) }

func (c *folder) used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// Close implements Cache. It unlocks the folder explicitly, because a child process that is
// being started shares the file until exec.
func (c *folder) Close() error {
	if c.lock == nil {
		return nil
	}
	return errors.Join(syscall.Flock(int(c.lock.Fd()), syscall.LOCK_UN), c.lock.Close())
}

// open returns a cached blob, which the caller must close, or nil. It remains readable
// after its eviction.
func (c *folder) open(k Key) *os.File {
	if c.dir == "" {
		return nil
	}
	name := k.name()
	e := c.use(name)
	if e == nil {
		c.hits.RecordMisses(1)
		return nil
	}
	f, err := os.Open(c.path(name))
	if err == nil {
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() == k.Size {
			now := time.Now()
			_ = os.Chtimes(c.path(name), now, now) // only used for the order of eviction
			c.hits.RecordHits(1)
			return f
		}
		_ = f.Close()
	}
	c.failed.Inc()
	c.hits.RecordMisses(1)
	c.drop(e)
	return nil
}

// use returns the entry of a cached file, and marks it as recently used; nil if it is not cached.
func (c *folder) use(name string) *list.Element {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[name]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e
}

func (c *folder) add(f cachedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[f.name] = c.order.PushFront(f)
	c.bytes += f.size
}

// drop deletes a corrupt file, unless it was evicted or replaced meanwhile.
func (c *folder) drop(e *list.Element) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[e.Value.(cachedFile).name] == e { //nolint:forcetypeassert // the list holds nothing else
		c.remove(e)
	}
}

// remove deletes a file. If that fails, it is still counted. mu must be held.
func (c *folder) remove(e *list.Element) bool {
	f := e.Value.(cachedFile) //nolint:forcetypeassert // the list holds nothing else
	if err := os.Remove(c.path(f.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	c.order.Remove(e)
	delete(c.entries, f.name)
	c.bytes -= f.size
	return true
}

// grow reserves n bytes and evicts blobs if needed. It returns false if that is not possible.
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

// Accepts implements Cache.
func (c *folder) Accepts(size int64) bool {
	return c.dir != "" && size > 0 && size <= c.limit/limits.BlobCacheShare
}
