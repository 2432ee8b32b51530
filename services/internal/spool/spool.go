// Package spool keeps small records on disk, in order, until they are taken.
// Writing one is a copy into the page cache: a killed process loses nothing, a
// power cut may lose the last moments. It owns one folder of this process and
// knows nothing of what the records hold.
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

// Options are the settings of a spool.
type Options struct {
	// Dir is the folder; it is created when missing.
	Dir string
	// Limit is how much may wait, in bytes. Beyond it the oldest is dropped.
	Limit int64
	// Now is the clock.
	Now func() time.Time
}

// Spool is an open spool, safe for concurrent use. Make it with Open.
//
// Each record has an ordinal. Ordinals only grow and are never used twice, not even
// when a power cut took records or the folder came back from a backup: every Open
// goes on at the clock's microseconds.
type Spool struct {
	id    string
	o     Options
	lock  *os.File
	added chan struct{}

	mu       sync.Mutex
	segments []*segment // oldest first; the last is written to
	at       cursor     // what was not taken yet
	bytes    int64      // in all segments
	dropped  int64
	closed   bool
}

// segments is how many files the limit is divided into.
const segments = 64

// Open opens the spool in a folder, with what an earlier process left there. The
// caller closes it. Only one process at a time can have it open.
func Open(o Options) (_ *Spool, err error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the spool: %w", err)
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
		return nil, errors.New("another process uses it; set another data_dir")
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

// identify reads the spool's name, or gives it one that lasts.
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

// recover finds what is left, and begins a segment after it.
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
			continue // not one of ours
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

// begin adds a segment to write to, with room for at least some bytes.
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

// ID names the spool: random, and the same for as long as the folder lives.
func (s *Spool) ID() string { return s.id }

// Append adds records in one write. On an error none of them is kept; later calls
// may succeed.
func (s *Spool) Append(records ...[]byte) error {
	var buf []byte
	for _, r := range records {
		if len(r) > MaxRecord {
			return fmt.Errorf("a record of %d bytes is longer than %d", len(r), MaxRecord)
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

// write adds framed records to the last segment, or to a new one where they do not
// fit or the last is broken.
func (s *Spool) write(framed []byte, count int) error {
	last := s.segments[len(s.segments)-1]
	if last.size+int64(len(framed)) <= last.room(s.o.Limit/segments) && last.write(framed, count) == nil {
		return nil
	}
	// Never the ordinals of a file that is there, even an empty one.
	if err := s.begin(max(last.next(), last.first+1), int64(len(framed))); err != nil {
		return err
	}
	return s.segments[len(s.segments)-1].write(framed, count)
}

// shrink drops the oldest records while there are too many.
func (s *Spool) shrink() {
	for s.bytes > s.o.Limit && len(s.segments) > 1 {
		oldest := s.segments[0]
		s.dropped += oldest.next() - max(s.at.ordinal, oldest.first)
		s.removeOldest()
	}
}

// removeOldest goes on with the next segment.
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

// Stats are how a spool stands.
type Stats struct {
	// Bytes are on disk; what was taken is removed a file at a time.
	Bytes int64
	// Waiting is how many records are not taken yet.
	Waiting int64
	// Dropped is how many records were dropped since Open because there were too many.
	Dropped int64
}

// Stats returns how the spool stands.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Bytes: s.bytes, Dropped: s.dropped}
	for _, seg := range s.segments {
		stats.Waiting += max(0, seg.next()-max(seg.first, s.at.ordinal))
	}
	return stats
}

// Close lets another process open the spool. What was not taken stays.
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
		// A child that is being started has the file, too, until it runs its program.
		problems = append(problems, syscall.Flock(int(s.lock.Fd()), syscall.LOCK_UN), s.lock.Close())
	}
	return errors.Join(problems...)
}
