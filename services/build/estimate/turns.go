package estimate

import (
	"slices"
	"time"

	"slipway.dev/services/internal/ratelimit"
)

// A build is a running or waiting build in a simulation of the queue.
type build struct {
	isRunning bool
	// needsSlot is false for a build of other workers, which only counts against limits.
	needsSlot bool
	// left is how much longer it takes after its start, or after now if it is running.
	left time.Duration
	// limits are the limits of builds at a time that it counts against.
	limits []ratelimit.RunningLimit
}

// sharesLimit reports whether a build counts against one of some limits.
func (b build) sharesLimit(limits []ratelimit.RunningLimit) bool {
	return slices.ContainsFunc(b.limits, func(l ratelimit.RunningLimit) bool {
		return l.Most > 0 && slices.ContainsFunc(limits, func(m ratelimit.RunningLimit) bool { return l.Subject == m.Subject })
	})
}

// startAfter returns when the last build starts: each waiting build starts in the order of before as
// soon as there is a free slot and its limits allow it, and later builds overtake those that wait for
// their limits.
func startAfter(before []build, last build, slots int) time.Duration {
	s := simulation{slots: slots, counts: map[ratelimit.Subject]int{}}
	var waiting []build
	for _, b := range before {
		if b.isRunning {
			s.start(b)
		} else {
			waiting = append(waiting, b)
		}
	}
	for {
		waiting = slices.DeleteFunc(waiting, func(b build) bool {
			can := s.canStart(b)
			if can {
				s.start(b)
			}
			return can
		})
		if s.canStart(last) || len(s.running) == 0 {
			return s.now
		}
		s.endNext()
	}
}

// A simulation is the state of the workers at a time.
type simulation struct {
	now time.Duration
	// slots is the number of free slots; negative if more builds run than there are slots.
	slots  int
	counts map[ratelimit.Subject]int
	// running are the running builds; left is the time at which each ends.
	running []build
}

func (s *simulation) canStart(b build) bool {
	return (!b.needsSlot || s.slots > 0) &&
		!slices.ContainsFunc(b.limits, func(l ratelimit.RunningLimit) bool { return l.Most > 0 && s.counts[l.Subject] >= l.Most })
}

func (s *simulation) start(b build) {
	b.left += s.now
	s.running = append(s.running, b)
	s.count(b, 1)
}

// endNext moves the time on to the end of the next build.
func (s *simulation) endNext() {
	next := 0
	for i, b := range s.running {
		if b.left < s.running[next].left {
			next = i
		}
	}
	b := s.running[next]
	s.running = slices.Delete(s.running, next, next+1)
	s.now = max(s.now, b.left)
	s.count(b, -1)
}

func (s *simulation) count(b build, n int) {
	if b.needsSlot {
		s.slots -= n
	}
	for _, l := range b.limits {
		s.counts[l.Subject] += n
	}
}
