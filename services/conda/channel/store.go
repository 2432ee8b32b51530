// Package channel caches the package lists of Conda channels. A list is fetched on first
// use, stored as an index on disk, and refreshed in the background while it is used.
//
// A broken, slow or hostile channel only affects the clients that use it: a failed fetch
// leaves the previous index in place. The file formats follow CEP 16 and CEP 36. The
// transport enforces the egress rules.
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
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/conda/history"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Options configure a Store.
type Options struct {
	// Dir is the folder of the indexes. No other process may use it.
	Dir string
	// Size is the limit of all indexes together, in bytes; see prune. 0 means no limit.
	Size int64
	// Refresh is how long an index is used before the channel is contacted again. Channels
	// may extend it.
	Refresh time.Duration
	// History is how long the changes of lists are kept, for AsOf; 0 keeps none.
	History time.Duration
	Names   *Names
	// Client is used to contact channels; see NewClient.
	Client  *http.Client
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now returns the current time.
	Now func() time.Time
}

// A Store caches indexes. Use New to create it, then Run it. It is safe for concurrent use.
type Store struct {
	*Names
	dir     string
	size    int64
	refresh time.Duration
	history time.Duration
	http    *http.Client
	log     *slog.Logger
	now     func() time.Time
	metrics *metrics

	mu      sync.Mutex
	entries map[key]*entry
	// known is the maximum number of entries.
	known int
	pasts pasts

	pools pools
	// running ends with Run, which waits for fetches.
	running context.Context //nolint:containedctx // it is the store's life
	stop    context.CancelFunc
	fetches sync.WaitGroup
}

// A key identifies an index.
type key struct{ url, subdir, scope string }

// An entry is an index and its state. It is guarded by the store's mu.
type entry struct {
	key     key
	channel Channel
	access  Access
	path    string
	// index is nil if it does not exist.
	index *index.Index
	// blocks is the history that leads to blocksOf, which is index unless it was replaced
	// since.
	blocks   []history.Block
	blocksOf *index.Index
	// checked is when the channel last confirmed the index, due when it must be refreshed,
	// and used when a caller last requested it.
	checked, due, used time.Time
	// failure is the error of the last attempt; nil if it succeeded or there was none.
	failure error
	// absent is set if the channel has nothing for the platform.
	absent bool
	// fetching is closed when the current fetch has ended; nil without a current fetch. clients
	// have a ticket for the fetch. wanted is not cancelled while the fetch is queued; begun
	// cancels it when the fetch starts.
	fetching chan struct{}
	clients  []fairshare.Client
	wanted   context.Context //nolint:containedctx // it is the wait's life
	begun    context.CancelFunc
}

// New opens a store. It removes unfinished files of an earlier process.
func New(o Options) (*Store, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the indexes: %w", err)
	}
	s := &Store{
		Names: o.Names, dir: o.Dir, size: o.Size, refresh: o.Refresh, history: o.History, http: o.Client, log: o.Log, now: o.Now,
		entries: map[key]*entry{}, known: limits.ChannelsKnown, pools: newPools(),
	}
	s.running, s.stop = context.WithCancel(context.Background())
	left, err := filepath.Glob(filepath.Join(o.Dir, ".new-*"))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("removing unfinished files: %w", err)
		}
	}
	s.metrics = newMetrics(s, o.Metrics)
	o.Metrics.MustRegister(s.pools.shared, s.pools.others, s.pools.pasts)
	return s, nil
}

// A State is an index with its age.
type State struct {
	// Index is nil if the channel has nothing for the platform.
	Index *index.Index
	// Checked is when the channel last confirmed the index.
	Checked time.Time
	// Failure is a sentence that explains why the last refresh failed; "" if it succeeded.
	Failure string
	// Past is set by AsOf.
	Past
}

// Rename replaces the names of channels. An index whose channel gets another name keeps its content.
// If the last refresh failed, the index is refreshed immediately, since there may be new mirrors. An
// index whose URL no longer has a name is no longer refreshed or reported, unless a caller requests
// its URL.
func (s *Store) Rename(next *Names) {
	s.Replace(next)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		c, err := s.Resolve(e.key.url)
		if err == nil {
			c, err = s.Resolve(c.Name) // the name may have another URL now
		}
		if err != nil || c.URL != e.key.url {
			c = Channel{Name: e.key.url, URL: e.key.url}
		}
		if c.Name != e.channel.Name {
			e.used = time.Time{}
		}
		if e.failure != nil {
			e.due = time.Time{}
		}
		e.channel = c
	}
}

// Get returns the index of a channel for one platform folder. An existing index is returned
// immediately, whatever its age, and refreshed in the background. Otherwise Get waits for
// the fetch, up to limits.ChannelWait; then it returns fault.Unavailable and the fetch
// continues. An index that is older than Access.After counts as missing. Other faults are
// those of the channel.
func (s *Store) Get(ctx context.Context, c Channel, subdir string, a Access) (State, error) {
	e, err := s.entry(c, subdir, a)
	if err != nil {
		return State{}, err
	}
	if now := s.now(); a.After.After(now) {
		a.After = now
	}
	ctx, cancel := context.WithTimeout(ctx, limits.ChannelWait)
	defer cancel()
	for {
		state, wait, err := s.stateOrWait(e, a)
		if wait == nil {
			return state, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return State{}, fault.Unavailable.New("The channel "+c.Name+" is being fetched; try again in a moment", context.Cause(ctx)).After(5 * time.Second)
		}
	}
}

// stateOrWait returns the state of an entry, or a channel to wait on.
func (s *Store) stateOrWait(e *entry, a Access) (State, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	e.used = now
	old := e.index != nil && e.checked.Before(a.After) && e.failure == nil
	if e.fetching != nil {
		s.join(e, a.Client)
	} else if !now.Before(e.due) || old {
		if err := s.begin(e, a.Client); err != nil && (e.index == nil || old) {
			return State{}, nil, err
		}
	}
	switch {
	case old && e.fetching != nil:
		return State{}, e.fetching, nil
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

// sentence returns the part of an error that may be shown.
func sentence(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public
	}
	return "The channel could not be read"
}

// entry returns the entry of an index, and loads it from disk if needed.
func (s *Store) entry(c Channel, subdir string, a Access) (*entry, error) {
	k := key{c.URL, subdir, a.Scope}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[k]; ok {
		e.access = a
		return e, nil
	}
	if len(s.entries) >= s.known && !s.forget() {
		return nil, fault.Unavailable.Newf("Too many channels are being read right now; try again in a moment").After(5 * time.Second)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{k.url, k.subdir, k.scope}, "\n")))
	e := &entry{key: k, channel: c, access: a, path: filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".idx"), used: s.now()}
	s.entries[k] = e
	s.open(e)
	return e, nil
}

// open loads an index that an earlier process wrote.
func (s *Store) open(e *entry) {
	st, err := os.Stat(e.path)
	if err != nil {
		return
	}
	x, err := index.Open(e.path, e.place())
	if err != nil {
		s.log.Warn("An index is damaged; the channel will be fetched again", "channel", e.channel.Name, "subdir", e.key.subdir, "err", err)
		return
	}
	e.index, e.checked = x, st.ModTime()
	e.due = e.checked.Add(s.refresh)
	s.log.Info("An existing index was loaded", "channel", e.channel.Name, "subdir", e.key.subdir, "records", x.Meta().Records, "age", s.now().Sub(e.checked).Round(time.Second).String())
}

func (e *entry) place() index.Place {
	return index.Place{Channel: e.channel.Name, Subdir: e.key.subdir, Folder: folder(e.channel.URL, e.key.subdir)}
}

// forget drops an entry of the client that has the most idle entries: one without an index, or
// else the least recently used one. It never drops shared entries. Files remain on disk and can
// be loaded again. It reports whether it dropped an entry. The caller holds mu.
func (s *Store) forget() bool {
	idle := map[fairshare.Client][]*entry{}
	var most fairshare.Client
	for _, e := range s.entries {
		if e.fetching == nil && !s.isShared(e) {
			c := e.access.Client
			if idle[c] = append(idle[c], e); len(idle[c]) > len(idle[most]) {
				most = c
			}
		}
	}
	if len(idle[most]) == 0 {
		return false
	}
	oldest := idle[most][0]
	for _, e := range idle[most] {
		if e.evictsBefore(oldest) {
			oldest = e
		}
	}
	delete(s.entries, oldest.key)
	return true
}

func (e *entry) evictsBefore(o *entry) bool {
	if (e.index == nil) != (o.index == nil) {
		return e.index == nil
	}
	return e.used.Before(o.used)
}

// Loaded returns an index that all callers may read if it is loaded, otherwise nil.
func (s *Store) Loaded(c Channel, subdir string) *index.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key{url: c.URL, subdir: subdir}]; ok {
		return e.index
	}
	return nil
}
