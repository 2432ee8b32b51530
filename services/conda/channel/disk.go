package channel

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
)

// othersSize returns the limit for the indexes of channels that the operator has not
// configured: half of the disk space. The indexes of one client may use a quarter of that.
func (s *Store) othersSize() int64 { return s.size / 2 }
func (s *Store) clientSize() int64 { return s.size / 8 }

// most returns the maximum uncompressed size of an entry's list, in bytes.
func (s *Store) most(e *entry) int64 {
	if s.size == 0 || s.isShared(e) {
		return limits.ChannelRepodata
	}
	return min(limits.ChannelRepodata, max(s.clientSize(), limits.ChannelLeast))
}

// An indexFile is an index on disk. Its size includes that of its history.
type indexFile struct {
	path   string
	size   int64
	used   time.Time
	shared bool
	entry  *entry // nil if it was not used since the start
	// client used it last; the zero value if no client used it since the start.
	client fairshare.Client
}

// prune removes indexes while they exceed the disk limit. It removes the least recently
// used index of the client whose indexes use the most; the operator's channels come last.
// An open index remains readable after its file was removed.
func (s *Store) prune() {
	if s.size == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var shared int64
	others := map[fairshare.Client][]indexFile{}
	all := s.indexes()
	slices.SortFunc(all, func(a, b indexFile) int { return a.used.Compare(b.used) })
	for _, f := range all {
		if f.shared {
			shared += f.size
		} else {
			others[f.client] = append(others[f.client], f)
		}
	}
	for len(others) > 0 {
		var total, largest int64
		var client fairshare.Client
		for c, files := range others {
			size := sizeOf(files)
			total += size
			if size > largest {
				client, largest = c, size
			}
		}
		own := others[client]
		if total <= s.othersSize() && total+shared <= s.size && (largest <= s.clientSize() || len(own) == 1) {
			return
		}
		s.remove(own[0])
		if others[client] = own[1:]; len(own) == 1 {
			delete(others, client)
		}
	}
	for _, f := range all {
		if f.shared && shared > s.size && s.remove(f) {
			shared -= f.size
		}
	}
}

func sizeOf(files []indexFile) (n int64) {
	for _, f := range files {
		n += f.size
	}
	return n
}

// remove removes an index, unless it is being fetched. The caller holds mu.
func (s *Store) remove(f indexFile) bool {
	if f.entry != nil && f.entry.fetching != nil {
		return false
	}
	if !s.removeFiles(f.path) {
		return false
	}
	if f.entry != nil {
		delete(s.entries, f.entry.key)
	}
	return true
}

// removeFiles removes the files of an index, if they exist, and reports whether it succeeded.
func (s *Store) removeFiles(path string) bool {
	for _, p := range []string{historyOf(path), path} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("An index could not be removed", "err", err)
			return false
		}
	}
	return true
}

// indexes returns all indexes on disk; none if the folder cannot be read.
func (s *Store) indexes() (all []indexFile) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.idx"))
	if err != nil {
		return nil
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
		if h, err := os.Stat(historyOf(path)); err == nil {
			f.size += h.Size()
		}
		if e, ok := held[path]; ok {
			f.used, f.shared, f.entry, f.client = e.used, s.isShared(e), e, e.access.Client
		}
		all = append(all, f)
	}
	return all
}
