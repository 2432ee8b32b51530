package channel

import (
	"cmp"
	"slices"
	"time"
)

// Standing is how one index stands with its channel.
type Standing struct {
	// Channel and Subdir say whose it is; "" for those of channels that the operator does
	// not know, which strangers can name.
	Channel, Subdir string
	// Checked is when the channel last said that it is right; zero while there is no index.
	Checked time.Time
	// Size is what it takes up on the disk, in bytes.
	Size int64
	// Failure is why the channel could not be asked since, in a sentence; "" where it could.
	Failure string
}

// Standings lists the indexes by channel and platform folder; those of channels that the
// operator does not know come first. What a channel does not have is not in it.
func (s *Store) Standings() []Standing {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Standing
	for _, e := range s.entries {
		if e.index == nil && e.failure == nil {
			continue
		}
		var one Standing
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
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Subdir, b.Subdir))
	})
	return out
}
