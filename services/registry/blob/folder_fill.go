package blob

import (
	"context"
	"io"
	"os"
)

// incoming is the prefix of the names of unfinished files.
const incoming = "incoming-"

// Find implements Cache.
func (c *folder) Find(_ context.Context, k Key) (Found, bool) {
	f := c.open(k)
	return Found{File: f}, f != nil
}

// Run implements Cache. Files are evicted by grow, so that there is nothing to do.
func (c *folder) Run(context.Context) {}

// Fill implements Cache.
func (c *folder) Fill(k Key, body io.Reader) *Filling {
	if !c.Accepts(k.Size) || c.diskFull != nil && c.diskFull() != nil || !c.begin(k.name()) {
		return nil
	}
	f := &fillingFile{cache: c, name: k.name()}
	var err error
	if f.file, err = os.CreateTemp(c.dir, incoming+"*"); err != nil {
		c.failed.Inc()
		f.end()
		return nil
	}
	return newFilling(k, body, f)
}

// begin returns false if the file is cached or being written already.
func (c *folder) begin(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, kept := c.entries[name]
	if kept || c.filling[name] {
		return false
	}
	c.filling[name] = true
	return true
}

// A fillingFile is a blob that is being written to the folder.
type fillingFile struct {
	cache   *folder
	name    string
	file    *os.File // nil after discard or commit
	written int64
}

// write implements sink. It reserves space for received data only, so that a claimed size
// evicts nothing.
func (f *fillingFile) write(p []byte) bool {
	n := int64(len(p))
	if !f.cache.grow(n) {
		return false
	}
	f.written += n
	if _, err := f.file.Write(p); err != nil {
		f.cache.failed.Inc()
		return false
	}
	return true
}

// commit implements sink. The file is synced before it is renamed, so that a power failure
// leaves no incomplete blob.
func (f *fillingFile) commit() {
	c := f.cache
	err := f.file.Sync()
	if err == nil {
		err = os.Rename(f.file.Name(), c.path(f.name))
	}
	if err != nil {
		c.failed.Inc()
		return
	}
	_ = f.file.Close()
	f.file = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[f.name] = c.order.PushFront(cachedFile{name: f.name, size: f.written})
}

// end implements sink.
func (f *fillingFile) end() {
	f.discard()
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	delete(f.cache.filling, f.name)
}

// discard implements sink.
func (f *fillingFile) discard() {
	if f.file == nil {
		return
	}
	_ = f.file.Close()
	_ = os.Remove(f.file.Name()) // otherwise deleted at the next start
	f.file = nil
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.cache.bytes -= f.written
}
