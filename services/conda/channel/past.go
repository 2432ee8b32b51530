package channel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/conda/history"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

// pending returns the path of an index whose history is not stored yet. New removes such
// files.
func (e *entry) pending() string {
	return filepath.Join(filepath.Dir(e.path), ".new-"+filepath.Base(e.path))
}

// historyOf returns the path of the history of an index.
func historyOf(path string) string { return strings.TrimSuffix(path, ".idx") + ".history" }

// replace stores how the list changed since known, and then replaces the file of the index
// with the pending one. known is the previous index, nil for none, and checked is when the
// channel last confirmed it. If the process ends in between, the stored change does not lead to
// the index on disk, and is ignored. On an error the previous index and its history remain.
func (s *Store) replace(e *entry, place index.Place, known *index.Index, checked time.Time) (*index.Index, error) {
	x, err := index.Open(e.pending(), place)
	if err == nil && known != nil {
		err = s.record(historyOf(e.path), known, x, checked)
	}
	if err == nil {
		err = index.Rename(e.pending(), e.path)
	}
	if err != nil {
		if err := os.Remove(e.pending()); err != nil {
			s.log.Warn("An unfinished index could not be removed", "err", err)
		}
		return nil, err
	}
	return x, nil
}

// record appends the change between two states to a history, and removes the blocks that are
// older than the setting or exceed the limits. Blocks that do not lead to the earlier state are
// discarded. If the change alone exceeds the limits, the whole history is discarded.
func (s *Store) record(path string, before, after *index.Index, checked time.Time) error {
	if s.history == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing a history: %w", err)
		}
		return nil
	}
	h, err := history.Open(path)
	if err != nil {
		return unrecorded(err)
	}
	defer func() { _ = h.Close() }() // synced by Append
	most := history.Limit{Changes: limits.ChannelChanges, Size: max(limits.ChannelInflated, after.Size())}
	block := history.Block{Before: before.Meta().Snapshot, After: after.Meta().Snapshot, Since: before.Meta().Fetched, Until: checked, At: after.Meta().Fetched}
	err = h.Append(h.To(block.Before), block, most, func(add func(history.Change) error) error {
		return index.Diff(before, after, func(name, fileName, raw []byte) error {
			return add(history.Change{Name: name, FileName: fileName, Raw: raw})
		})
	})
	if errors.Is(err, history.ErrTooLarge) {
		s.log.Warn("A channel replaced its list: its history was discarded", "channel", after.Place().Channel, "subdir", after.Place().Subdir)
		return unrecorded(h.Clear())
	}
	if err != nil {
		return unrecorded(err)
	}
	keep := history.Within(h.To(block.After), most)
	for len(keep) > 0 && keep[0].At.Before(s.now().Add(-s.history)) {
		keep = keep[1:]
	}
	return unrecorded(h.Trim(keep))
}

// unrecorded returns the fault for a history that cannot be written. The list is then not
// replaced either, because its earlier states would be lost.
func unrecorded(err error) error {
	if err == nil {
		return nil
	}
	return fault.Unavailable.New("The history of the channel's list of packages could not be written", err).After(limits.ChannelRetry)
}

// A Past describes an earlier state of a list.
type Past struct {
	// Since is when the history of the list begins.
	Since time.Time
	// IsKnown reports whether the history has the state at the requested time. Otherwise the
	// index is the earliest known state.
	IsKnown bool
	// Until is when the channel last confirmed the state before the requested time; the
	// channel may have changed its list between then and the requested time. Zero means that
	// the state is the present one.
	Until time.Time
}

// AsOf returns the index of a channel as it was at a time, or the earliest known state before
// the history of the list begins. state is the result of Get. Reconstructed states are shared
// by all callers.
func (s *Store) AsOf(ctx context.Context, c Channel, subdir string, a Access, state State, at time.Time) (State, error) {
	if state.Index == nil {
		return state, nil
	}
	e, err := s.entry(c, subdir, a)
	if err != nil {
		return State{}, err
	}
	for {
		blocks, err := s.blocks(e, state.Index)
		if err != nil {
			return State{}, err
		}
		first := len(blocks)
		for first > 0 && blocks[first-1].At.After(at) {
			first--
		}
		out := state
		out.Since = state.Index.Meta().Fetched
		if len(blocks) > 0 {
			out.Since = blocks[0].Since
		}
		out.IsKnown = !at.Before(out.Since)
		if first == len(blocks) {
			return out, nil
		}
		if out.IsKnown {
			out.Until = blocks[first].Until
		}
		key := pastKey{state.Index, len(blocks) - first}
		out.Index, err = s.pasts.get(ctx, key, func(ctx context.Context) (*index.Index, error) {
			return s.reconstruct(ctx, e, a.Client, state.Index, blocks[first:])
		})
		if !errors.Is(err, history.ErrDamaged) {
			return out, err
		}
		if !s.isCurrent(e, state.Index) {
			return State{}, fault.Unavailable.New("The history of a channel is damaged; try again in a moment", err).After(limits.ChannelRetry)
		}
	}
}

// isCurrent reports whether blocks holds the history of an index.
func (s *Store) isCurrent(e *entry, x *index.Index) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.blocksOf == x
}

// blocks returns the history that leads to an index.
func (s *Store) blocks(e *entry, x *index.Index) ([]history.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock() // reading the headers takes some milliseconds
	if e.blocksOf == x {
		return e.blocks, nil
	}
	h, err := history.Open(historyOf(e.path))
	if err != nil {
		return nil, fault.Unavailable.New("The history of a channel cannot be read; try again in a moment", err).After(limits.ChannelRetry)
	}
	defer func() { _ = h.Close() }() // read only
	blocks := h.To(x.Meta().Snapshot)
	if e.index == x {
		e.blocks, e.blocksOf = blocks, x
	}
	return blocks, nil
}

// reconstruct returns the state before the first of blocks, which must be all blocks from that
// state to the present state x. If a block is damaged, it returns history.ErrDamaged, and the
// history of the entry then begins after that block.
func (s *Store) reconstruct(ctx context.Context, e *entry, client fairshare.Client, x *index.Index, blocks []history.Block) (*index.Index, error) {
	changes := 0
	for _, b := range blocks {
		changes += b.Changes
	}
	amount := min(limits.ChannelPastLeast+limits.ChannelPastChange*int64(changes), limits.ChannelPastMemory-limits.ChannelPastMemory/8)
	lease, err := s.pools.pasts.Acquire(ctx, fairshare.Request{Client: client, Amount: amount, Untrusted: !s.IsKnown(x.Place().Channel)})
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	h, err := history.Open(historyOf(e.path))
	if err != nil {
		return nil, fault.Unavailable.New("The history of a channel cannot be read; try again in a moment", err).After(limits.ChannelRetry)
	}
	defer func() { _ = h.Close() }() // read only
	w, err := index.Create(e.path)
	if err != nil {
		return nil, err
	}
	if n, err := collect(ctx, h, w, blocks); err != nil {
		if errors.Is(err, history.ErrDamaged) {
			s.log.Warn("The history of a channel is damaged; it begins after the damaged block", "channel", x.Place().Channel, "subdir", e.key.subdir, "err", err)
			s.beginAfter(e, x, blocks[n])
		}
		return nil, errors.Join(err, w.Discard())
	}
	past, err := w.Detach(x.Place())
	if err != nil {
		return nil, err
	}
	return x.Overlay(past, blocks[0].Before), nil
}

// collect writes, for each record that the blocks change, its content in the state before the
// first block. If it fails, it returns the index of the block that it was reading.
func collect(ctx context.Context, h *history.File, w *index.Writer, blocks []history.Block) (int, error) {
	seen := map[[16]byte]struct{}{}
	for i, b := range blocks {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		// Trimming may have moved the blocks.
		at, ok := h.Find(b)
		if !ok {
			return i, fmt.Errorf("%w: a block is missing", history.ErrDamaged)
		}
		err := h.Changes(at, func(c history.Change) error {
			sum := sha256.Sum256(slices.Concat(c.Name, []byte{'/'}, c.FileName))
			id := [16]byte(sum[:16])
			if _, ok := seen[id]; ok { // an earlier block has an earlier state
				return nil
			}
			seen[id] = struct{}{}
			return w.AddPast(c.Name, c.FileName, c.Raw)
		})
		if err != nil {
			return i, err
		}
	}
	return 0, nil
}

// beginAfter removes a block and those before it from the history of an entry.
func (s *Store) beginAfter(e *entry, x *index.Index, b history.Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.blocksOf == x {
		i := slices.IndexFunc(e.blocks, b.Equal)
		e.blocks = e.blocks[i+1:]
	}
}

// pasts caches the most recently used earlier states. The zero value is ready to use.
type pasts struct {
	flight memo.Flight[pastKey, *index.Index]
	mu     sync.Mutex
	last   []pastState // the least recently used one first
}

// A pastKey identifies an earlier state: the present index, and the number of blocks between
// the two.
type pastKey struct {
	index  *index.Index
	blocks int
}

type pastState struct {
	key   pastKey
	index *index.Index
}

// get returns a state from the cache, or calls build to reconstruct it.
func (p *pasts) get(ctx context.Context, key pastKey, build func(context.Context) (*index.Index, error)) (*index.Index, error) {
	if x := p.find(key); x != nil {
		return x, nil
	}
	return p.flight.Do(ctx, key, func(ctx context.Context) (*index.Index, error) {
		if x := p.find(key); x != nil {
			return x, nil
		}
		x, err := build(ctx)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.last = append(p.last, pastState{key, x}); len(p.last) > limits.ChannelPasts {
			p.last = slices.Delete(p.last, 0, 1)
		}
		return x, nil
	})
}

func (p *pasts) find(key pastKey) *index.Index {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.last, func(s pastState) bool { return s.key == key })
	if i < 0 {
		return nil
	}
	found := p.last[i]
	p.last = append(slices.Delete(p.last, i, i+1), found)
	return found.index
}

// drop releases the states of an index that was replaced.
func (p *pasts) drop(x *index.Index) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = slices.DeleteFunc(p.last, func(s pastState) bool { return s.key.index == x })
}
