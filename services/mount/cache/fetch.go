package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

const (
	// smallBlob is the size in bytes up to which a package is fetched completely: its table would be a request of its own.
	smallBlob = 512 << 10
	// smallChunks is the maximum number of chunks of such a package: all are in memory.
	smallChunks = 8
	// maxAhead is the maximum number of chunks of one request, and maxComplete that while a package is completed. The first
	// request of a package is for minAhead chunks, and requests that continue where the last one ended are for twice as many.
	minAhead, maxAhead, maxComplete = 2, 4, 8
	// attempts is the maximum number of attempts of one request, and firstPause the pause after the first.
	attempts   = 5
	firstPause = 200 * time.Millisecond
)

// A span is the chunks [from, to) of one request.
type span struct {
	from, to int
	chunks   []*chunk // nil for a chunk that another request loads
}

// fetch loads the chunk i, which the caller acquired as c, and some after it, with one request.
func (e *Environment) fetch(d *device, i int, c *chunk) {
	if e.source == nil || d.blob.Size == 0 {
		e.hot.finish(key{d, i}, c, nil, fmt.Errorf("package %s: %w", d.Name(), ErrOffline))
		return
	}
	s := e.plan(d, i, c)
	if err := e.slot(func() error {
		e.load(d, s)
		return nil
	}); err != nil {
		e.fail(d, s, err)
	}
}

// isSmall reports whether a package is fetched as a whole.
func (d *device) isSmall() bool { return d.blob.Size <= smallBlob && len(d.Chunks) <= smallChunks }

// load fetches chunks with one request.
func (e *Environment) load(d *device, s span) {
	fetch := e.fetchSpan
	if d.isSmall() {
		fetch = e.fetchAll
	}
	if err := fetch(d, s); err != nil {
		e.fail(d, s, err)
		return
	}
	e.completeLater(d)
}

// fail ends the loading of those chunks that are not loaded.
func (e *Environment) fail(d *device, s span, err error) {
	err = fmt.Errorf("package %s: %w", d.Name(), err)
	for n, one := range s.chunks {
		if one != nil {
			e.hot.finish(key{d, s.from + n}, one, nil, err)
		}
	}
}

// slot calls f when fewer than concurrentFetches requests are running.
func (e *Environment) slot(f func() error) error {
	select {
	case e.fetches <- struct{}{}:
		defer func() { <-e.fetches }()
		return f()
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	}
}

// plan decides which chunks are fetched together, and acquires them.
func (e *Environment) plan(d *device, i int, c *chunk) span {
	if d.isSmall() {
		return e.smallSpan(d, i, c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ahead *= 2; i != d.next || d.ahead == 0 {
		d.ahead = minAhead
	}
	limit := maxAhead
	if d.completing.Load() {
		limit = maxComplete
	}
	d.ahead = min(d.ahead, limit)
	e.survey(d)
	s := span{from: i, to: i + 1, chunks: []*chunk{c}}
	for s.to < len(d.Chunks) && s.to-s.from < d.ahead && !d.stored[s.to] {
		next := e.hot.claim(key{d, s.to})
		if next == nil {
			break
		}
		s.to, s.chunks = s.to+1, append(s.chunks, next)
	}
	d.next = s.to
	return s
}

// smallSpan returns all chunks of a small package, of which the caller acquired the chunk i as c.
func (e *Environment) smallSpan(d *device, i int, c *chunk) span {
	s := span{to: len(d.Chunks), chunks: make([]*chunk, len(d.Chunks))}
	s.chunks[i] = c
	for n := range s.chunks {
		if n != i {
			s.chunks[n] = e.hot.claim(key{d, n})
		}
	}
	return s
}

// survey finds out once which chunks are in the cache. The caller holds d.mu.
func (e *Environment) survey(d *device) {
	if d.stored != nil {
		return
	}
	d.stored = make([]bool, len(d.Chunks))
	for i := range d.stored {
		if d.stored[i] = e.cache.has(chunkFile(d.Device, i)...); !d.stored[i] {
			d.missing++
		}
	}
}

// fetchAll fetches a small package as a whole, so that it never consists of chunks in the cache.
func (e *Environment) fetchAll(d *device, s span) error {
	packed, err := e.request(d, 0, d.blob.Size)
	if err != nil {
		return err
	}
	size := pack.TableSize(len(d.Chunks))
	if size > len(packed) {
		return fmt.Errorf("its blob %s has only %d bytes", d.blob.Digest, len(packed))
	}
	table, err := pack.ParseTable(packed[len(packed)-size:], len(d.Chunks), d.blob.Size)
	if err != nil {
		return fmt.Errorf("the table of %s: %w", d.blob.Digest, err)
	}
	all := make([]byte, 0, d.Size)
	for i := range d.Chunks {
		p, err := e.decode(d, i, frame(packed, table, i, 0))
		if err != nil {
			return err
		}
		all = append(all, p...)
	}
	if e.cache.write(all, blobs, d.Name()) {
		e.settle(d)
	}
	for i, c := range s.chunks {
		if c != nil {
			from := i * erofs.ChunkSize
			e.hot.finish(key{d, i}, c, all[from:from+chunkSize(d.Device, i):from+chunkSize(d.Device, i)], nil)
		}
	}
	return nil
}

// frame returns the frame of a chunk in the bytes from base on.
func frame(packed []byte, table pack.Table, i int, base int64) []byte {
	at, length := table.Frame(i, i+1)
	return packed[at-base : at-base+length]
}

// fetchSpan fetches chunks of a package and stores each in the cache.
func (e *Environment) fetchSpan(d *device, s span) error {
	table, err := e.tableOf(d)
	if err != nil {
		return err
	}
	base, length := table.Frame(s.from, s.to)
	packed, err := e.request(d, base, base+length)
	if err != nil {
		return err
	}
	for n, c := range s.chunks {
		i := s.from + n
		p, err := e.decode(d, i, frame(packed, table, i, base))
		if err != nil {
			e.forgetTable(d)
			return err
		}
		e.store(d, i, p)
		e.hot.finish(key{d, i}, c, p, nil)
		s.chunks[n] = nil // finished, also if a later chunk fails
	}
	return nil
}

// store stores a chunk in the cache.
func (e *Environment) store(d *device, i int, p []byte) {
	if d.completing.Load() || !e.cache.write(p, chunkFile(d.Device, i)...) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stored[i] {
		d.stored[i] = true
		d.missing--
	}
}

// completeIfStored replaces the chunks of a package by one file when the last one is stored.
func (e *Environment) completeIfStored(d *device) {
	d.mu.Lock()
	all := d.stored != nil && d.missing == 0 && d.whole.Load() == nil && e.ctx.Err() == nil
	d.mu.Unlock()
	if all && d.completing.CompareAndSwap(false, true) {
		defer d.completing.Store(false)
		e.cache.failed(e.complete(d))
	}
}

// decode decompresses a chunk and verifies it.
func (e *Environment) decode(d *device, i int, frame []byte) ([]byte, error) {
	p, err := e.decoder.Chunk(frame, make([]byte, 0, chunkSize(d.Device, i)))
	if err != nil {
		e.Stats.Rejected.Add(1)
		return nil, fmt.Errorf("decompressing chunk %d: %w", i, err)
	}
	return p, e.verify(d, i, p)
}

// request fetches a part of the blob of a package, with several attempts.
func (e *Environment) request(d *device, from, to int64) ([]byte, error) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		p, err := e.source.Range(e.ctx, d.blob.Digest, from, to)
		e.Stats.Requests.Add(1)
		e.Stats.Bytes.Add(int64(len(p)))
		if err == nil && int64(len(p)) != to-from {
			err = fmt.Errorf("%d bytes instead of %d: %w", len(p), to-from, io.ErrUnexpectedEOF)
		}
		if err == nil {
			return p, nil
		}
		if attempt == attempts || errors.Is(err, ErrPermanent) || e.ctx.Err() != nil {
			return nil, fmt.Errorf("fetching the bytes %d to %d of %s: %w", from, to, d.blob.Digest, err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads attempts
		case <-e.ctx.Done():
		}
		pause *= 2
	}
}
