package registry

import (
	"io"
	"os"

	"github.com/opencontainers/go-digest"
)

// incoming begins the names of files that are being written.
const incoming = "incoming-"

// filling is a blob on its way to a client that is kept as it passes. What goes wrong with
// keeping it does not concern the client.
type filling struct {
	cache   *blobCache
	key     blobKey
	body    io.Reader
	file    *os.File // nil once it will not be kept
	verify  digest.Verifier
	written int64
}

// fill begins to keep a blob that is read from body, by one reader at a time; nil where it
// is not to be kept. The caller ends it.
func (c *blobCache) fill(k blobKey, body io.Reader) *filling {
	if !c.wants(k.size) || !c.begin(k.file()) {
		return nil
	}
	f := &filling{cache: c, key: k, body: body, verify: k.digest.Verifier()}
	var err error
	if f.file, err = os.CreateTemp(c.dir, incoming+"*"); err != nil {
		c.failed.Inc()
		f.end()
		return nil
	}
	return f
}

// begin says whether nobody else is writing a file.
func (c *blobCache) begin(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, kept := c.entries[name]
	if kept || c.filling[name] {
		return false
	}
	c.filling[name] = true
	return true
}

// Read implements io.Reader.
func (f *filling) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	if n > 0 {
		f.keep(p[:n])
	}
	return n, err
}

// keep takes room only for what has come: a size that is claimed drives nothing out.
func (f *filling) keep(p []byte) {
	n := int64(len(p))
	if f.file == nil {
		return
	}
	if f.written+n > f.key.size || !f.cache.grow(n) {
		f.giveUp()
		return
	}
	f.written += n
	_, _ = f.verify.Write(p) // a hash takes everything
	if _, err := f.file.Write(p); err != nil {
		f.cache.failed.Inc()
		f.giveUp()
	}
}

// commit makes the blob visible, if it is whole and what its digest says. It is on disk
// before it has its name: after a power cut there is no other.
func (f *filling) commit() {
	if f.file == nil || f.written != f.key.size || !f.verify.Verified() {
		return
	}
	c, name := f.cache, f.key.file()
	err := f.file.Sync()
	if err == nil {
		err = os.Rename(f.file.Name(), c.path(name))
	}
	if err != nil {
		c.failed.Inc()
		return
	}
	_ = f.file.Close()
	f.file = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[name] = c.order.PushFront(keptFile{name: name, size: f.written})
}

// end gives up what was not committed.
func (f *filling) end() {
	f.giveUp()
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	delete(f.cache.filling, f.key.file())
}

func (f *filling) giveUp() {
	if f.file == nil {
		return
	}
	_ = f.file.Close()
	_ = os.Remove(f.file.Name()) // or else at the next start
	f.file = nil
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.cache.bytes -= f.written
}
