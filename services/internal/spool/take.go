package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// cursor is a place in the oldest segment.
type cursor struct {
	ordinal int64 // of the next record
	offset  int64 // in bytes
}

// Batch is records that follow each other without a gap.
type Batch struct {
	// First is the ordinal of the first record.
	First int64
	// Records are the contents, in order.
	Records [][]byte

	bytes int64
}

// Wake gets a value when there may be records to take.
func (s *Spool) Wake() <-chan struct{} { return s.added }

// Next returns the oldest records that were not taken yet, at most so many; none
// when there are none. One caller of Next and Taken at a time.
func (s *Spool) Next(most int) (Batch, error) {
	s.mu.Lock()
	s.skipTaken()
	seg, at := *s.segments[0], s.at
	s.mu.Unlock()

	b := Batch{First: at.ordinal}
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

// Taken lets go of a batch. Where it was dropped meanwhile, it is gone already.
func (s *Spool) Taken(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.ordinal == b.First {
		s.at.ordinal += int64(len(b.Records))
		s.at.offset += b.bytes
	}
}

// skipTaken removes segments of which everything was taken.
func (s *Spool) skipTaken() {
	for len(s.segments) > 1 && s.at.ordinal >= s.segments[0].next() {
		s.removeOldest()
	}
}

// unreadable gives up the rest of a segment whose content has changed since it was
// opened; any other trouble may pass.
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
