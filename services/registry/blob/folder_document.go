package blob

import (
	"context"
	"io"
	"os"
	"time"

	"slipway.dev/services/internal/limits"
)

// Document implements Cache.
func (c *folder) Document(_ context.Context, name string) (io.ReadCloser, int64, bool) {
	name += "-" + documentMark
	if c.dir == "" {
		return nil, 0, false
	}
	e := c.use(name)
	if e == nil {
		return nil, 0, false
	}
	f, err := os.Open(c.path(name))
	if err != nil {
		c.failed.Inc()
		c.drop(e)
		return nil, 0, false
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		c.failed.Inc()
		return nil, 0, false
	}
	now := time.Now()
	_ = os.Chtimes(c.path(name), now, now) // only used for the order of eviction
	return f, info.Size(), true
}

// SetDocument implements Cache.
func (c *folder) SetDocument(name string, content []byte) {
	name += "-" + documentMark
	if c.dir == "" || c.diskFull != nil && c.diskFull() != nil || !c.beginDocument(name) {
		return
	}
	f := cachedFile{name: name, size: int64(len(content)) + limits.DocumentCharge}
	reserved := c.grow(f.size)
	stored := reserved && c.writeDocument(name, content)
	if reserved && !stored {
		c.failed.Inc()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.filling, name)
	switch {
	case stored:
		c.entries[name] = c.order.PushFront(f)
	case reserved:
		c.bytes -= f.size
	}
}

// beginDocument removes an earlier document, so that it cannot be evicted while it is replaced. It
// returns false if the document is being written already.
func (c *folder) beginDocument(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.filling[name] {
		return false
	}
	if old, ok := c.entries[name]; ok && !c.remove(old) {
		return false
	}
	c.filling[name] = true
	return true
}

// writeDocument writes a file. It is not synced, since readers verify documents.
func (c *folder) writeDocument(name string, content []byte) bool {
	f, err := os.CreateTemp(c.dir, incoming+"*")
	if err != nil {
		return false
	}
	_, err = f.Write(content)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path(name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // otherwise deleted at the next start
	}
	return err == nil
}
