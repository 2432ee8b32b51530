package cache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

// A Source is what packages are fetched from: a registry, or a folder with an OCI layout.
type Source interface {
	// Range returns the bytes from (inclusive) to (exclusive) of a blob. It is called concurrently. An error that wraps
	// ErrPermanent is not retried.
	Range(ctx context.Context, digest string, from, to int64) ([]byte, error)
}

// ErrPermanent is wrapped by errors of a Source that another attempt cannot avoid.
var ErrPermanent = errors.New("permanent error")

// ErrOffline is returned for content that the cache does not have if there is no Source.
var ErrOffline = errors.New("the package is not complete in the cache, and nothing is fetched")

// A Blob is a package at its source: its digest and size as compressed.
type Blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Stats counts what an environment fetched.
type Stats struct {
	Requests, Bytes atomic.Int64
	// Rejected counts chunks that were not as the index requires, at the source or in the cache.
	Rejected atomic.Int64
}

// An Environment reads the packages of an index. It is safe for concurrent use.
type Environment struct {
	Stats   Stats
	cache   *Cache
	source  Source
	ctx     context.Context //nolint:containedctx // that of the mount, which ends all requests
	devices []*device
	decoder *pack.Decoder
	fetches chan struct{} // limits concurrent requests
	hot     hot
	// background are packages that are being completed. None is started after Close, which waits for them.
	background sync.WaitGroup
	recorder   *recorder // nil if nothing is recorded
	closing    sync.Mutex
	isClosed   bool
	stop       context.CancelFunc
}

// A device is one package of an environment.
type device struct {
	erofs.Device
	blob  Blob
	mu    sync.Mutex // guards the fields below
	tried time.Time  // when whole was last looked for
	whole atomic.Pointer[found]
	// table has the positions of the chunks in the compressed blob; nil until it is needed.
	table *pack.Table
	// next is the chunk after the last fetched one, and ahead how many chunks are fetched in one request.
	next, ahead int
	stored      []bool // the chunks that are known to be in the cache
	missing     int    // the number of those that are not
	verified    []bool // the chunks whose files in the cache this process has verified
	// completing is set while the package is written as one file, so that its chunks are not written as well.
	completing atomic.Bool
}

func (d *device) isVerified(i int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.verified != nil && d.verified[i]
}

func (d *device) setVerified(i int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.verified == nil {
		d.verified = make([]bool, len(d.Chunks))
	}
	d.verified[i] = true
}

// concurrentFetches is the maximum number of concurrent requests of a process. Each has a compressed and a decoded copy of
// its chunks in memory.
const concurrentFetches = 3

// Environment returns the packages of an index, of which source has blobs by their id. Without a source, packages must be
// in the cache. Requests end with ctx.
func (c *Cache) Environment(ctx context.Context, index *erofs.Index, blobs map[[32]byte]Blob, source Source) (*Environment, error) {
	d, err := pack.NewDecoder()
	if err != nil {
		return nil, fmt.Errorf("starting the decoder: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	e := &Environment{cache: c, source: source, ctx: ctx, stop: stop, decoder: d, fetches: make(chan struct{}, concurrentFetches)}
	e.hot.limit = hotBytes
	for _, one := range index.Devices() {
		e.devices = append(e.devices, &device{Device: one, blob: blobs[one.ID]})
	}
	return e, nil
}

// chunkSize returns the length of a chunk.
func chunkSize(d erofs.Device, i int) int {
	return int(min(erofs.ChunkSize, d.Size-uint64(i)*erofs.ChunkSize))
}

// closeTime is how long Close waits for packages that are being completed, which only reads and writes the cache.
const closeTime = 5 * time.Second

// Close waits for packages that are being completed, and ends all requests.
func (e *Environment) Close() {
	e.closing.Lock()
	e.isClosed = true
	e.closing.Unlock()
	late := time.AfterFunc(closeTime, e.stop)
	e.background.Wait()
	late.Stop()
	e.stop()
}

// completeLater completes a package in the background if all its chunks are stored, unless the environment is closed.
func (e *Environment) completeLater(d *device) {
	e.closing.Lock()
	defer e.closing.Unlock()
	if !e.isClosed {
		e.background.Go(func() { e.completeIfStored(d) })
	}
}

// ReadAt fills p with the bytes of a device from off on.
func (e *Environment) ReadAt(number int, p []byte, off int64) error {
	if number < 0 || number >= len(e.devices) {
		return fmt.Errorf("there is no package %d", number)
	}
	d := e.devices[number]
	if off < 0 || uint64(off) > d.Size || uint64(len(p)) > d.Size-uint64(off) {
		return fmt.Errorf("package %s: %w", d.Name(), io.ErrUnexpectedEOF)
	}
	if e.recorder != nil {
		e.recorder.note(number, off, len(p))
	}
	if f := e.wholeOf(d); f != nil && f.trusted {
		if _, err := f.ReadAt(p, off); err == nil {
			return nil
		}
		d.drop(f) // e.g. deleted on a network file system
	}
	for len(p) > 0 {
		i, at := int(off/erofs.ChunkSize), off%erofs.ChunkSize
		n := min(len(p), chunkSize(d.Device, i)-int(at))
		if !e.part(d, i, p[:n], at) {
			c, err := e.chunk(d, i)
			if err != nil {
				return err
			}
			copy(p[:n], c[at:])
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// ReadLocal is ReadAt for packages that are complete in the cache and may be used without verification. It reports whether it has read the bytes.
func (e *Environment) ReadLocal(number int, p []byte, off int64) bool {
	if e.recorder != nil || number < 0 || number >= len(e.devices) {
		return false
	}
	f := e.wholeOf(e.devices[number])
	if f == nil || !f.trusted {
		return false
	}
	_, err := f.ReadAt(p, off)
	return err == nil
}

// part reads a part of a chunk that other users cannot change from the cache, since most reads are much smaller than a chunk. It reports
// whether the cache has the chunk, and this process has verified it: a crash of the machine can damage files.
func (e *Environment) part(d *device, i int, p []byte, at int64) bool {
	if !d.isVerified(i) {
		return false
	}
	f, err := e.cache.open(chunkFile(d.Device, i)...)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if !f.trusted || f.size != int64(chunkSize(d.Device, i)) {
		return false
	}
	_, err = f.ReadAt(p, at)
	return err == nil
}

// lookAgain is the time after which a package that was not complete in the cache is looked for again: another process may
// have completed it.
const lookAgain = 10 * time.Second

// wholeOf returns the file of a package that is complete in the cache; nil for none.
func (e *Environment) wholeOf(d *device) *found {
	if f := d.whole.Load(); f != nil {
		return f
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.whole.Load(); f != nil || time.Since(d.tried) < lookAgain {
		return f
	}
	d.tried = time.Now()
	return e.openWhole(d)
}

// openWhole opens the file of a complete package. The caller holds d.mu.
func (e *Environment) openWhole(d *device) *found {
	f, err := e.cache.open(blobs, d.Name())
	if err != nil {
		return nil
	}
	if uint64(f.size) != d.Size {
		_ = f.Close()
		return nil
	}
	d.whole.Store(f)
	return f
}

// drop stops using the file of a complete package. It stays open: other reads may use it.
func (d *device) drop(f *found) { d.whole.CompareAndSwap(f, nil) }

// chunk returns a chunk. Concurrent calls for one chunk share the work.
func (e *Environment) chunk(d *device, i int) ([]byte, error) {
	k := key{d, i}
	h, mine := e.hot.acquire(k)
	if !mine {
		return h.wait(e.ctx)
	}
	data, err := e.local(d, i)
	if err == nil {
		e.hot.finish(k, h, data, nil)
		return data, nil
	}
	if !errors.Is(err, ErrMissing) {
		e.hot.finish(k, h, nil, err)
		return nil, err
	}
	e.fetch(d, i, h)
	return h.wait(e.ctx)
}

// local returns a verified chunk of the cache, or ErrMissing.
func (e *Environment) local(d *device, i int) ([]byte, error) {
	if f := e.wholeOf(d); f != nil {
		p := make([]byte, chunkSize(d.Device, i))
		if _, err := f.ReadAt(p, int64(i)*erofs.ChunkSize); err == nil && e.verify(d, i, p) == nil {
			return p, nil
		}
		d.drop(f)
	}
	p, trusted, err := e.cache.read(erofs.ChunkSize, chunkFile(d.Device, i)...)
	if err == nil && e.verify(d, i, p) == nil {
		if trusted {
			d.setVerified(i)
		}
		return p, nil
	}
	return nil, ErrMissing
}

// chunkFile returns the path of a chunk in a cache.
func chunkFile(d erofs.Device, i int) []string {
	h := hex.EncodeToString(d.Chunks[i][:])
	return []string{chunks, h[:2], h}
}

// Complete reports whether all packages are complete in the cache and may be used without verification, and returns their
// files in the order of the devices.
func (e *Environment) Complete() (paths []string, ok bool) {
	for _, d := range e.devices {
		f := e.wholeOf(d)
		if f == nil || !f.trusted {
			return nil, false
		}
		paths = append(paths, f.Name())
	}
	return paths, true
}

// Size returns the number of packages, and the total size of those that are not complete in the cache, as compressed.
func (e *Environment) Size() (packages int, missing int64) {
	for _, d := range e.devices {
		if e.wholeOf(d) == nil {
			missing += d.blob.Size
		}
	}
	return len(e.devices), missing
}

// Fetch completes all packages in the cache. After each package it calls progress, which may be nil.
func (e *Environment) Fetch(ctx context.Context, progress func(done, all int)) error {
	e.hot.grow(completeBytes)
	todo := make(chan *device, len(e.devices))
	for _, d := range e.devices {
		todo <- d
	}
	close(todo)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var workers sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range concurrentFetches {
		workers.Go(func() {
			for d := range todo {
				if ctx.Err() != nil {
					return
				}
				if err := e.completeOnce(d); err != nil {
					stop(fmt.Errorf("completing package %s: %w", d.Name(), err))
					return
				}
				mu.Lock()
				if done++; progress != nil {
					progress(done, len(e.devices))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (e *Environment) completeOnce(d *device) error {
	d.completing.Store(true)
	defer d.completing.Store(false)
	return e.complete(d)
}

// complete writes a complete package into the cache. It reads the chunks that the cache has, and fetches others.
func (e *Environment) complete(d *device) error {
	if f := e.wholeOf(d); f != nil && (f.trusted || e.isWhole(d, f)) {
		return nil
	}
	err := e.cache.create(func(w *os.File) error {
		for i := range d.Chunks {
			p, err := e.chunk(d, i)
			if err != nil {
				return err
			}
			if _, err := w.Write(p); err != nil {
				return err
			}
		}
		return nil
	}, blobs, d.Name())
	if err != nil {
		return err
	}
	e.settle(d)
	return nil
}

// isWhole verifies a file that other users can change.
func (e *Environment) isWhole(d *device, f *found) bool {
	p := make([]byte, erofs.ChunkSize)
	for i := range d.Chunks {
		n := chunkSize(d.Device, i)
		if _, err := f.ReadAt(p[:n], int64(i)*erofs.ChunkSize); err != nil || e.verify(d, i, p[:n]) != nil {
			d.drop(f)
			return false
		}
	}
	return true
}

// settle switches to the file of a package that was completed, and deletes its chunks.
func (e *Environment) settle(d *device) {
	d.mu.Lock()
	f := e.openWhole(d)
	d.mu.Unlock()
	if f == nil {
		return
	}
	for i := range d.Chunks {
		_ = os.Remove(filepath.Join(append([]string{e.cache.dir}, chunkFile(d.Device, i)...)...)) // another package with the same chunk fetches it again
	}
}

// verify checks a chunk against the index.
func (e *Environment) verify(d *device, i int, p []byte) error {
	if sum256(p) == d.Chunks[i] {
		return nil
	}
	e.Stats.Rejected.Add(1)
	return fmt.Errorf("package %s: chunk %d is not the one of the index", d.Name(), i)
}
