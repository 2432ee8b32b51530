package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// A cursor is a position in the oldest segment.
type cursor struct {
	ordinal int64 // ordinal of the next record
	offset  int64 // of the next record, in bytes
}

// A Batch is a sequence of records with consecutive ordinals.
type Batch struct {
	// First is the ordinal of the first record.
	First int64
	// Records are the contents of the records, in order.
	Records [][]byte

	bytes int64
}

// Wake returns a channel that receives a value when there may be new records.
func (s *Spool) Wake() <-chan struct{} { return s.added }

// Next returns the oldest unacknowledged records, at most limit of them, or an empty Batch if
// all records are acknowledged. Next and Ack must not be called concurrently.
func (s *Spool) Next(limit int) (Batch, error) {
	s.mu.Lock()
	s.removeAcknowledged()
	seg, at := *s.segments[0], s.at
	s.mu.Unlock()

	b := Batch{First: at.ordinal}
	// Read without the lock, so that writers do not wait for the disk.
	r := bufio.NewReader(io.NewSectionReader(seg.file, at.offset, seg.size-at.offset))
	for left := min(int64(limit), seg.next()-at.ordinal); left > 0; left-- {
		record, err := readRecord(r)
		if err != nil {
			return Batch{}, s.unreadable(&seg, at, err)
		}
		b.Records = append(b.Records, record)
		b.bytes += headLength + int64(len(record))
	}
	return b, nil
}

// Ack acknowledges the records of a batch. It has no effect if they were dropped in the
// meantime.
func (s *Spool) Ack(b Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.ordinal == b.First {
		s.at.ordinal += int64(len(b.Records))
		s.at.offset += b.bytes
	}
}

// removeAcknowledged deletes segments whose records were all acknowledged.
func (s *Spool) removeAcknowledged() {
	for len(s.segments) > 1 && s.at.ordinal >= s.segments[0].next() {
		s.removeOldest()
	}
}

// unreadable drops the rest of a segment whose content has changed since it was opened. After
// other errors, which may be temporary, the records remain.
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
