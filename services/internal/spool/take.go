package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// cursor is a place in the oldest segment.
type cursor struct {
	ordinal int64 // of the next record
	offset  int64 // in bytes
}

// Batch is records that follow each other without a gap.
type Batch struct {
	// Spool is the ID of the spool.
	Spool string
	// First is the ordinal of the first record.
	First int64
	// Records are the contents, in order.
	Records [][]byte

	bytes int64
}

// Taker gets what is in a spool.
type Taker struct {
	// Send hands a batch over; it is called again until it answers nil, and may
	// then have handed over the same records more than once.
	Send func(context.Context, Batch) error
	// Most is how many records a batch has at most.
	Most int
	// Linger is how long to wait for more records before a batch is sent.
	Linger time.Duration
	// Failed hears of every attempt that went wrong, and of nil when the next one
	// went well.
	Failed func(error)
}

// Patience with a Taker that fails: the first pause, the longest, and the time
// for what is left when the work ends.
const (
	firstPause  = 100 * time.Millisecond
	longPause   = 2 * time.Second
	lastAttempt = 3 * time.Second
)

// Run hands over what is in the spool, in order, until ctx ends; then what is
// left, unless that takes too long. One Run at a time.
func (s *Spool) Run(ctx context.Context, t Taker) {
	pause, failing := firstPause, false
	for ctx.Err() == nil {
		n, err := s.takeOne(ctx, t)
		switch {
		case err != nil:
			t.Failed(err)
			failing = true
			wait(ctx, pause, nil)
			pause = min(2*pause, longPause)
			continue
		case n == 0:
			wait(ctx, time.Hour, s.kick)
		case failing:
			t.Failed(nil)
			pause, failing = firstPause, false
		}
		if n < t.Most {
			wait(ctx, t.Linger, nil)
		}
	}
	rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAttempt)
	defer cancel()
	for {
		if n, err := s.takeOne(rest, t); n == 0 || err != nil {
			return
		}
	}
}

// wait ends when the time is up, ctx ends, or there is a kick.
func wait(ctx context.Context, d time.Duration, kick <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-kick:
	}
}

// takeOne sends one batch and answers how many records it had.
func (s *Spool) takeOne(ctx context.Context, t Taker) (int, error) {
	b, err := s.next(t.Most)
	if err != nil || len(b.Records) == 0 {
		return 0, err
	}
	if err := t.Send(ctx, b); err != nil {
		return 0, err
	}
	s.taken(b)
	return len(b.Records), nil
}

// next answers the oldest records that were not taken yet; none when there are
// none.
func (s *Spool) next(most int) (Batch, error) {
	s.mu.Lock()
	s.skipTaken()
	seg, at := *s.segments[0], s.at
	s.mu.Unlock()

	b := Batch{Spool: s.id, First: at.ordinal}
	// Not under the lock: nobody who writes waits for this disk.
	r := bufio.NewReader(io.NewSectionReader(seg.file, at.offset, seg.size-at.offset))
	for left := min(int64(most), seg.next()-at.ordinal); left > 0; left-- {
		record, err := readRecord(r)
		if err != nil {
			return Batch{}, s.unreadable(&seg, at, err)
		}
		b.Records = append(b.Records, record)
		b.bytes += headLength + int64(len(record))
	}
	return b, nil
}

// skipTaken removes segments of which everything was taken.
func (s *Spool) skipTaken() {
	for len(s.segments) > 1 && s.at.ordinal >= s.segments[0].next() {
		s.removeOldest()
	}
}

// taken goes on behind a batch. Where it was dropped meanwhile, it is gone already.
func (s *Spool) taken(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.ordinal == b.First {
		s.at.ordinal += int64(len(b.Records))
		s.at.offset += b.bytes
	}
}

// unreadable gives the rest of a segment up whose content has changed since it was
// opened; other trouble may pass.
func (s *Spool) unreadable(seg *segment, at cursor, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := errors.Is(err, errTorn) || errors.Is(err, io.EOF)
	if !broken || s.segments[0].first != seg.first || s.at != at {
		return fmt.Errorf("reading the spool: %w", err)
	}
	if len(s.segments) == 1 {
		err = errors.Join(err, s.begin(s.segments[0].next(), 0))
	}
	if len(s.segments) > 1 {
		s.dropped += s.segments[0].next() - at.ordinal
		s.removeOldest()
	}
	return fmt.Errorf("reading the spool: %w", err)
}
