package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/erofs"
)

// A First is a chunk of a package that a command read: the numbers of the package in the index, and of the chunk in the package.
type First struct{ Package, Chunk int }

// MarshalJSON returns [package, chunk].
func (f First) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{f.Package, f.Chunk}) }

// UnmarshalJSON parses [package, chunk].
func (f *First) UnmarshalJSON(raw []byte) error {
	var pair []int
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 || pair[0] < 0 || pair[1] < 0 {
		return errors.New("an entry must be the numbers of a package and of a chunk")
	}
	f.Package, f.Chunk = pair[0], pair[1]
	return nil
}

// firstList is the form of a list of first uses.
type firstList struct {
	Version int     `json:"version"`
	Chunks  []First `json:"chunks"`
}

const firstVersion = 1

// EncodeFirsts encodes a list of first uses.
func EncodeFirsts(list []First) ([]byte, error) {
	return json.Marshal(firstList{Version: firstVersion, Chunks: list[:min(len(list), limits.MountFirsts)]})
}

// ParseFirsts parses a list of first uses.
func ParseFirsts(raw []byte) ([]First, error) {
	var l firstList
	if len(raw) > limits.MountFirstsBytes {
		return nil, fmt.Errorf("the list of first uses has %d bytes, and the limit is %d", len(raw), limits.MountFirstsBytes)
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, fmt.Errorf("the list of first uses is malformed: %w", err)
	}
	if l.Version != firstVersion || len(l.Chunks) > limits.MountFirsts {
		return nil, fmt.Errorf("the list of first uses has the version %d and %d entries; the version %d and %d entries can be read", l.Version, len(l.Chunks), firstVersion, limits.MountFirsts)
	}
	return l.Chunks, nil
}

// Firsts returns what commands read first of the environment whose compressed index has a digest: nothing if that was not recorded, or other users
// can change the record.
func (c *Cache) Firsts(index string) []First {
	raw, trusted, err := c.read(limits.MountFirstsBytes, firsts, hexOf(index))
	if err != nil || !trusted {
		return nil
	}
	list, err := ParseFirsts(raw)
	if err != nil {
		return nil // it is only a hint, and the next record replaces it
	}
	return list
}

// AddFirsts adds to the record of an environment what a command read first, and returns the number of entries that are new.
func (c *Cache) AddFirsts(index string, list []First) int {
	all := c.Firsts(index)
	known := map[First]bool{}
	for _, f := range all {
		known[f] = true
	}
	before := len(all)
	for _, f := range list {
		if !known[f] && len(all) < limits.MountFirsts {
			known[f], all = true, append(all, f)
		}
	}
	added := len(all) - before
	if h := hexOf(index); h != "" && added > 0 {
		raw, err := EncodeFirsts(all)
		if err != nil {
			c.failed(err)
			return 0
		}
		c.write(raw, firsts, h)
	}
	return added
}

// A recorder records which chunks are read.
type recorder struct {
	mu    sync.Mutex
	seen  map[First]bool
	order []First
}

// note records a read.
func (r *recorder) note(device int, off int64, length int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := off / erofs.ChunkSize; i <= (off+int64(max(length, 1))-1)/erofs.ChunkSize; i++ {
		f := First{device, int(i)}
		if !r.seen[f] && len(r.order) < limits.MountFirsts {
			r.seen[f], r.order = true, append(r.order, f)
		}
	}
}

// Record makes the environment record which chunks are read. It must be called before the first read.
func (e *Environment) Record() { e.recorder = &recorder{seen: map[First]bool{}} }

// Recorded returns the chunks that were read, in the order of their first reads.
func (e *Environment) Recorded() []First {
	if e.recorder == nil {
		return nil
	}
	e.recorder.mu.Lock()
	defer e.recorder.mu.Unlock()
	return append([]First(nil), e.recorder.order...)
}

// concurrentFirsts is the maximum number of requests at once for a list of first uses. They do not wait for others, nor others for them.
const concurrentFirsts = 6

// FetchFirsts fetches chunks into the cache in the background, several at once, until Close is called. Reads of the chunks wait for them; errors are
// those of the reads, which fetch again.
func (e *Environment) FetchFirsts(list []First) {
	spans := e.spansOf(list)
	if e.source == nil || len(spans) == 0 {
		return
	}
	todo := make(chan firstSpan, len(spans))
	for _, s := range spans {
		todo <- s
	}
	close(todo)
	e.closing.Lock()
	defer e.closing.Unlock()
	if e.isClosed {
		return
	}
	for range min(concurrentFirsts, len(spans)) {
		e.background.Go(func() {
			for s := range todo {
				if e.ctx.Err() != nil || e.hasEnded() || e.cache.Problem() != nil { // chunks that cannot be stored would be fetched twice
					return
				}
				e.fetchFirst(s)
			}
		})
	}
}

// hasEnded reports whether Close was called.
func (e *Environment) hasEnded() bool {
	e.closing.Lock()
	defer e.closing.Unlock()
	return e.isClosed
}

// A firstSpan is a range of chunks of a package.
type firstSpan struct {
	device   *device
	from, to int
}

// spansOf returns the ranges of a list that the environment has, in the order of their first chunks.
func (e *Environment) spansOf(list []First) []firstSpan {
	listed := map[First]bool{}
	for _, f := range list {
		listed[f] = true
	}
	var out []firstSpan
	for _, f := range list {
		if !listed[f] || f.Package >= len(e.devices) || f.Chunk >= len(e.devices[f.Package].Chunks) {
			continue
		}
		s := firstSpan{device: e.devices[f.Package], from: f.Chunk, to: f.Chunk}
		for s.to < len(s.device.Chunks) && s.to-s.from < maxAhead && listed[First{f.Package, s.to}] {
			delete(listed, First{f.Package, s.to})
			s.to++
		}
		out = append(out, s)
	}
	return out
}

// fetchFirst fetches those chunks of a range that the cache lacks and no read is loading.
func (e *Environment) fetchFirst(f firstSpan) {
	d := f.device
	if d.blob.Size == 0 || e.wholeOf(d) != nil {
		return
	}
	for i := f.from; i < f.to; {
		c := e.claimMissing(d, i)
		if c == nil {
			i++
			continue
		}
		if d.isSmall() {
			e.load(d, e.smallSpan(d, i, c))
			return
		}
		s := span{from: i, to: i + 1, chunks: []*chunk{c}}
		for s.to < f.to {
			next := e.claimMissing(d, s.to)
			if next == nil {
				break
			}
			s.to, s.chunks = s.to+1, append(s.chunks, next)
		}
		i = s.to
		e.load(d, s)
	}
}

// claimMissing claims a chunk that is neither in the cache nor in memory; nil for another one.
func (e *Environment) claimMissing(d *device, i int) *chunk {
	d.mu.Lock()
	e.survey(d)
	stored := d.stored[i]
	d.mu.Unlock()
	if stored {
		return nil
	}
	return e.hot.claim(key{d, i})
}
