// Package channel keeps the lists of packages of Conda channels at hand: each is
// fetched when somebody first asks for it, kept as an index on the disk, and brought up
// to date in the background for as long as it is used.
//
// A channel that is broken, slow or hostile costs its own users something and nobody
// else: a fetch that fails leaves the index of before in its place. Where channels are,
// which files they have and what these may say: CEP 16, CEP 36; the rules of egress
// are the transport's.
package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Options are what a Store works with.
type Options struct {
	// Dir is the folder of the indexes, which the store has for itself.
	Dir string
	// Size is how much they may take together, in bytes; beyond it those go that were
	// used longest ago. 0 is no limit.
	Size int64
	// Refresh is how long an index is used before its channel is asked again; channels
	// may say that it can be longer.
	Refresh time.Duration
	Names   *Names
	// Client asks channels; see NewClient.
	Client  *http.Client
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Store keeps indexes. Make it with New, then Run it; safe for concurrent use.
type Store struct {
	*Names
	dir     string
	size    int64
	refresh time.Duration
	http    *http.Client
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics

	mu      sync.Mutex
	entries map[key]*entry
	// most is how many there may be.
	most int
	// answered is when a channel last did, for Ready.
	answered time.Time
	// shared and others are what is to be fetched; see queue.
	shared, others *queue
}

// key tells indexes apart.
type key struct{ url, subdir, scope string }

// entry is one index, and how it stands with its channel. The store's mu guards it.
type entry struct {
	key     key
	channel Channel
	access  Access
	path    string
	// index is nil while there is none.
	index *index.Index
	// checked is when the channel last said that the index is right, due when it is to
	// be asked again, used when somebody last wanted it.
	checked, due, used time.Time
	// failure is why the last try failed; nil when it did not, or there was none.
	failure error
	// absent is set when the channel has nothing for the platform.
	absent bool
	// fetching is closed when the fetch that goes on has ended; nil when none does. clients
	// are those who want it, first who did first, and waits says that it has not begun.
	fetching chan struct{}
	clients  []string
	waits    bool
}

// New opens a store. What an earlier process left half-written is removed.
func New(o Options) (*Store, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the indexes: %w", err)
	}
	s := &Store{
		Names: o.Names, dir: o.Dir, size: o.Size, refresh: o.Refresh, http: o.Client, log: o.Log, now: o.Now,
		entries: map[key]*entry{}, most: limits.ChannelsKnown, shared: newQueue(), others: newQueue(),
	}
	left, err := filepath.Glob(filepath.Join(o.Dir, ".new-*"))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing what was left: %w", err)
		}
	}
	s.metrics = newMetrics(s, o.Metrics)
	return s, nil
}

// State is an index, and how old what it says is.
type State struct {
	// Index is nil where the channel has nothing for the platform.
	Index *index.Index
	// Checked is when the channel last said that it is right.
	Checked time.Time
	// Failure is why it could not be asked since, in a sentence; "" where it could.
	Failure string
}

// Get answers the index of a channel for one platform folder. Where there is one it is
// answered at once, however old, and brought up to date behind the caller's back; else
// the caller waits until it is fetched, for limits.ChannelWait at most: then
// fault.Unavailable, and the fetch goes on. Other faults are the channel's.
func (s *Store) Get(ctx context.Context, c Channel, subdir string, a Access) (State, error) {
	e, err := s.entry(c, subdir, a)
	if err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.ChannelWait)
	defer cancel()
	for {
		state, wait, err := s.look(e, a.Client)
		if wait == nil {
			return state, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return State{}, fault.Unavailable.New("The channel "+c.Name+" is being fetched for the first time; try again in a moment", context.Cause(ctx)).After(5 * time.Second)
		}
	}
}

// look answers what is there, or what to wait for.
func (s *Store) look(e *entry, client string) (State, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e.used = now
	if e.fetching != nil {
		s.join(e, client)
	} else if !now.Before(e.due) {
		if err := s.begin(e, client); err != nil && e.index == nil {
			return State{}, nil, err
		}
	}
	switch {
	case e.index != nil:
		state := State{Index: e.index, Checked: e.checked}
		if e.failure != nil {
			state.Failure = sentence(e.failure)
		}
		return state, nil, nil
	case e.fetching != nil:
		return State{}, e.fetching, nil
	case e.absent:
		return State{Checked: e.checked}, nil, nil
	}
	return State{}, nil, e.failure
}

// sentence is what may be said of an error.
func sentence(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public
	}
	return "The channel could not be read"
}

// entry finds an index, on the disk where it is not known yet.
func (s *Store) entry(c Channel, subdir string, a Access) (*entry, error) {
	k := key{c.URL, subdir, a.Scope}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[k]; ok {
		e.access = a
		return e, nil
	}
	if len(s.entries) >= s.most && !s.forget() {
		return nil, fault.Unavailable.Newf("Too many channels are being read right now; try again in a moment").After(5 * time.Second)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{k.url, k.subdir, k.scope}, "\n")))
	e := &entry{key: k, channel: c, access: a, path: filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".idx"), used: s.now()}
	s.entries[k] = e
	s.open(e)
	return e, nil
}

// open takes up what an earlier process left.
func (s *Store) open(e *entry) {
	st, err := os.Stat(e.path)
	if err != nil {
		return
	}
	x, err := index.Open(e.path, e.place())
	if err != nil {
		s.log.Warn("An index is damaged; the channel is fetched anew", "channel", e.channel.Name, "subdir", e.key.subdir, "err", err)
		return
	}
	e.index, e.checked = x, st.ModTime()
	e.due = e.checked.Add(s.refresh)
	s.trim(e)
	s.log.Info("An index is used that was there", "channel", e.channel.Name, "subdir", e.key.subdir, "records", x.Meta().Records, "age", s.now().Sub(e.checked).Round(time.Second).String())
}

func (e *entry) place() index.Place {
	return index.Place{Channel: e.channel.Name, Subdir: e.key.subdir, Folder: folder(e.channel.URL, e.key.subdir)}
}

// forget drops the entry that was used longest ago; one that has no index first, and
// none that is everybody's. What is on the disk stays there, and is found again. False
// where there is none to drop. The caller holds mu.
func (s *Store) forget() bool {
	var oldest *entry
	for _, e := range s.entries {
		if e.fetching == nil && !s.isShared(e) && (oldest == nil || e.goesBefore(oldest)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(s.entries, oldest.key)
	}
	return oldest != nil
}

func (e *entry) goesBefore(o *entry) bool {
	if (e.index == nil) != (o.index == nil) {
		return e.index == nil
	}
	return e.used.Before(o.used)
}

// trim forgets entries, those used longest ago first, while the directories of all take
// too much memory; keep stays. The caller holds mu.
func (s *Store) trim(keep *entry) {
	var all []*entry
	total := 0
	for _, e := range s.entries {
		if e.index == nil {
			continue
		}
		total += e.index.Resident()
		if e != keep && e.fetching == nil && !s.isShared(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return a.used.Compare(b.used) })
	for _, e := range all {
		if total <= limits.ChannelDirectories {
			return
		}
		total -= e.index.Resident()
		delete(s.entries, e.key)
	}
}

// Known is the index that everybody may read, if it is there already; nil if not.
func (s *Store) Known(c Channel, subdir string) *index.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key{url: c.URL, subdir: subdir}]; ok {
		return e.index
	}
	return nil
}
