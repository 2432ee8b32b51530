package channel

import (
	"cmp"
	"slices"
	"time"
)

// A Status is the state of one index.
type Status struct {
	// Channel and Subdir are "" for channels that the operator has not configured, whose
	// names are not disclosed.
	Channel, Subdir string
	// Checked is when the channel last confirmed the index; zero while there is no index.
	Checked time.Time
	// Size is its size on disk in bytes.
	Size int64
	// Failure is a sentence that explains why the last refresh failed; "" if it succeeded.
	Failure string
}

// Statuses lists the indexes by channel and platform folder; those of channels that the
// operator has not configured come first. Platforms that a channel does not have are not
// listed.
func (s *Store) Statuses() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for _, e := range s.entries {
		if e.index == nil && e.failure == nil {
			continue
		}
		var one Status
		if s.isShared(e) {
			one.Channel, one.Subdir = e.channel.Name, e.key.subdir
		}
		if e.index != nil {
			one.Checked, one.Size = e.checked, e.index.Size()
		}
		if e.failure != nil {
			one.Failure = sentence(e.failure)
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Subdir, b.Subdir))
	})
	return out
}
