// Package spool stores small records on disk, in order, until the caller acknowledges them.
// Appending a record is a copy into the page cache: nothing is lost when the process is
// killed, but a power failure may lose the latest records. A spool owns one folder, which
// belongs to one process.
package spool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options configures a spool.
type Options struct {
	// Dir is the folder. It is created if missing.
	Dir string
	// Limit is the maximum size of the stored records in bytes. Beyond it the oldest are
	// dropped.
	Limit int64
	// Now is the clock.
	Now func() time.Time
}

// A Spool is an open spool. It is safe for concurrent use. Use Open to create one.
//
// Each record has an ordinal. Ordinals increase and are never reused, even if a power
// failure lost records or the folder was restored from a backup, because each Open
// continues at the current time in microseconds.
type Spool struct {
	id    string
	o     Options
	lock  *os.File
	added chan struct{}

	mu       sync.Mutex
	segments []*segment // oldest first; the last is the active one
	at       cursor     // position of the first unacknowledged record
	bytes    int64      // total of all segments
	dropped  int64
	closed   bool
}

// segments is the number of files that the limit is divided into.
const segments = 64

// Open opens the spool in a folder, including the records that an earlier process left.
// Only one process can have it open at a time. The caller must close it.
func Open(o Options) (_ *Spool, err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the spool: %w", err)
	}
	s := &Spool{o: o, added: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("opening the spool %s: %w", o.Dir, err), s.Close())
		}
	}()
	if s.lock, err = os.OpenFile(filepath.Join(o.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.New("it is in use by another process; set a different data_dir")
	}
	if s.id, err = identify(filepath.Join(o.Dir, "id")); err != nil {
		return nil, err
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	s.at = cursor{ordinal: s.segments[0].first}
	s.wake()
	return s, nil
}

// identify returns the spool's ID and creates it if needed.
func identify(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(raw)); err == nil && id != "" {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	id := rand.Text()
	f, err := os.Create(path + ".new")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(id + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	return id, os.Rename(path+".new", path)
}

// recover opens the existing segments and starts a new one after them.
func (s *Spool) recover() error {
	names, err := filepath.Glob(filepath.Join(s.o.Dir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, name := range names {
		seg, err := openSegment(name)
		if err != nil {
			return err
		}
		if seg == nil {
			continue // not a segment
		}
		if seg.count == 0 {
			seg.remove()
			continue
		}
		s.segments = append(s.segments, seg)
		s.bytes += seg.size
	}
	slices.SortFunc(s.segments, func(a, b *segment) int { return int(min(1, max(-1, a.first-b.first))) })
	next := max(1, s.o.Now().UnixMicro())
	if n := len(s.segments); n > 0 {
		next = max(next, s.segments[n-1].next())
	}
	return s.begin(next, 0)
}

// begin adds a new active segment with capacity for at least the given number of bytes.
func (s *Spool) begin(first, bytes int64) error {
	seg, err := newSegment(s.o.Dir, first, max(s.o.Limit/segments, bytes))
	if err != nil {
		return err
	}
	if n := len(s.segments); n > 0 {
		err = s.segments[n-1].trim()
	}
	s.segments = append(s.segments, seg)
	return err
}

// ID returns the random identifier of the spool, which is stored in its folder.
func (s *Spool) ID() string { return s.id }

// Append adds records in one write. On an error none of them is stored, and later calls may
// succeed.
func (s *Spool) Append(records ...[]byte) error {
	var buf []byte
	for _, r := range records {
		if len(r) > MaxRecord {
			return fmt.Errorf("a record has %d bytes, and the limit is %d", len(r), MaxRecord)
		}
		buf = frame(buf, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	if err := s.write(buf, len(records)); err != nil {
		return fmt.Errorf("writing to the spool: %w", err)
	}
	s.bytes += int64(len(buf))
	s.shrink()
	s.wake()
	return nil
}

// write appends framed records to the active segment, or to a new one if they do not fit or
// writing fails.
func (s *Spool) write(framed []byte, count int) error {
	last := s.segments[len(s.segments)-1]
	if last.size+int64(len(framed)) <= last.capacity(s.o.Limit/segments) && last.write(framed, count) == nil {
		return nil
	}
	// Do not reuse the ordinal of an existing file, even of an empty one.
	if err := s.begin(max(last.next(), last.first+1), int64(len(framed))); err != nil {
		return err
	}
	return s.segments[len(s.segments)-1].write(framed, count)
}

// shrink drops the oldest segments while the limit is exceeded.
func (s *Spool) shrink() {
	for s.bytes > s.o.Limit && len(s.segments) > 1 {
		oldest := s.segments[0]
		s.dropped += oldest.next() - max(s.at.ordinal, oldest.first)
		s.removeOldest()
	}
}

// removeOldest deletes the oldest segment and moves the position to the next one.
func (s *Spool) removeOldest() {
	oldest := s.segments[0]
	s.segments = s.segments[1:]
	s.bytes -= oldest.size
	s.at = cursor{ordinal: s.segments[0].first}
	oldest.remove()
}

func (s *Spool) wake() {
	select {
	case s.added <- struct{}{}:
	default:
	}
}

// Stats are the statistics of a spool.
type Stats struct {
	// Bytes is the size on disk, which includes acknowledged records of files that still have
	// unacknowledged ones.
	Bytes int64
	// Waiting is the number of unacknowledged records.
	Waiting int64
	// Dropped is the number of records that were dropped since Open because of the limit.
	Dropped int64
}

// Stats returns the current statistics.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Bytes: s.bytes, Dropped: s.dropped}
	for _, seg := range s.segments {
		stats.Waiting += max(0, seg.next()-max(seg.first, s.at.ordinal))
	}
	return stats
}

// Close closes the spool, so that another process can open it. Unacknowledged records remain.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var problems []error
	for _, seg := range s.segments {
		problems = append(problems, seg.close())
	}
	if s.lock != nil {
		// Unlock explicitly: a child process that is being started shares the file until
		// exec.
		problems = append(problems, syscall.Flock(int(s.lock.Fd()), syscall.LOCK_UN), s.lock.Close())
	}
	return errors.Join(problems...)
}
