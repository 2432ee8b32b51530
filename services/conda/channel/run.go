package channel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Run fetches what is asked for, and keeps it fresh, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, q := range []*queue{s.shared, s.others} {
		for range limits.ChannelsAtOnce {
			group.Go(func() error {
				s.work(ctx, q)
				return nil
			})
		}
	}
	group.Go(func() error {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				s.beginDue()
			}
		}
	})
	return group.Wait()
}

// beginDue asks again for what is used and due.
func (s *Store) beginDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, e := range s.entries {
		if e.fetching == nil && !now.Before(e.due) && e.index != nil && now.Sub(e.used) < limits.ChannelUnused {
			_ = s.begin(e, e.access.Client) // whose queue is full has it tried again in a minute
		}
	}
}

// update asks a channel, and its mirrors where it does not answer, and notes how that
// went.
func (s *Store) update(ctx context.Context, e *entry) {
	s.mu.Lock()
	f := &fetch{store: s, access: e.access, channel: e.channel.URL, subdir: e.key.subdir, path: e.path, known: e.index}
	s.mu.Unlock()
	start := s.now()
	err := s.try(ctx, f, e.channel)
	var x *index.Index
	if err == nil {
		x, err = index.Open(e.path, e.place())
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errUnchanged) && !errors.Is(err, errAbsent) {
		s.log.Warn("A channel could not be read", "channel", e.channel.Name, "subdir", e.key.subdir, "err", err)
	}
	if err == nil {
		s.prune()
	}
	s.metrics.refreshed(err, s.now().Sub(start))
	s.settle(e, f, x, err)
	if err == nil {
		s.log.Info("A channel was read", "channel", e.channel.Name, "subdir", e.key.subdir, "records", x.Meta().Records, "skipped", x.Meta().Skipped, "from", x.Meta().Source, "ms", s.now().Sub(start).Milliseconds())
	}
}

// try goes through a channel's addresses until one answers.
func (s *Store) try(ctx context.Context, f *fetch, c Channel) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ChannelFetch)
	defer cancel()
	for _, f.base = range append([]string{c.URL}, c.Mirrors...) {
		err = f.safely(ctx)
		if err == nil || errors.Is(err, errUnchanged) || errors.Is(err, errAbsent) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// safely runs a fetch; a panic is an error of this channel alone.
func (f *fetch) safely(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f.run(ctx)
}

// settle notes what a fetch came to, and lets those go on who wait for it.
func (s *Store) settle(e *entry, f *fetch, x *index.Index, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	fresh := max(s.refresh, f.fresh)
	switch {
	case err == nil:
		e.index, e.checked, e.due, e.failure, e.absent = x, now, now.Add(fresh), nil, false
		s.trim(e)
	case errors.Is(err, errUnchanged):
		e.checked, e.due, e.failure = now, now.Add(fresh), nil
		err = os.Chtimes(e.path, now, now)
		if err != nil {
			s.log.Warn("The age of an index could not be noted", "err", err)
		}
	case errors.Is(err, errAbsent) && e.index == nil:
		e.checked, e.due, e.failure, e.absent = now, now.Add(fresh), nil, true
	default:
		if e.key.scope != "" && errors.Is(err, fault.Denied) {
			// The login was good once; what it showed is not the caller's any more.
			e.index = nil
			if err := os.Remove(e.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				s.log.Warn("An index could not be removed", "err", err)
			}
		}
		e.failure, e.due = failure(err), now.Add(patience(err))
	}
	close(e.fetching)
	e.fetching = nil
}

// failure is what callers are told.
func failure(err error) error {
	switch _, ok := fault.As(err); {
	case ok:
		return err
	case errors.Is(err, errAbsent):
		return fault.Unavailable.New("The channel no longer has its list of packages", err)
	}
	return fault.Unavailable.New("The channel could not be read", err).After(limits.ChannelRetry)
}

// patience is how long a channel is left alone after a failure.
func patience(err error) time.Duration {
	if f, ok := fault.As(err); ok {
		return max(f.RetryAfter, limits.ChannelRetry)
	}
	return limits.ChannelRetry
}

// prune removes the indexes that were used longest ago, as long as all take too much:
// those that are everybody's last. Whoever reads one goes on.
func (s *Store) prune() {
	if s.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, total := s.indexes()
	slices.SortFunc(all, func(a, b indexFile) int {
		if a.shared != b.shared && a.shared {
			return 1
		} else if a.shared != b.shared {
			return -1
		}
		return a.used.Compare(b.used)
	})
	for _, f := range all {
		if total <= s.size {
			return
		}
		if f.entry != nil && f.entry.fetching != nil {
			continue
		}
		if err := os.Remove(f.path); err != nil {
			s.log.Warn("An index could not be removed", "err", err)
			continue
		}
		total -= f.size
		if f.entry != nil {
			delete(s.entries, f.entry.key)
		}
	}
}

// indexFile is an index on disk, with what is known of it.
type indexFile struct {
	path   string
	size   int64
	used   time.Time
	shared bool
	entry  *entry // nil where nobody has used it since the start
}

// indexes are all on disk, and their size; nothing where the folder cannot be read.
func (s *Store) indexes() (all []indexFile, total int64) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.idx"))
	if err != nil {
		return nil, 0
	}
	held := map[string]*entry{}
	for _, e := range s.entries {
		held[e.path] = e
	}
	for _, path := range files {
		st, err := os.Stat(path)
		if err != nil {
			continue
		}
		f := indexFile{path: path, size: st.Size(), used: st.ModTime()}
		if e, ok := held[path]; ok {
			f.used, f.shared, f.entry = e.used, s.isShared(e), e
		}
		all = append(all, f)
		total += st.Size()
	}
	return all, total
}
