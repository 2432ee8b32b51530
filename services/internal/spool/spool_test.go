package spool_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/spool"
)

func options(dir string) spool.Options {
	return spool.Options{Dir: dir, Limit: 1 << 20, Now: time.Now}
}

func open(t *testing.T, o spool.Options) *spool.Spool {
	t.Helper()
	s, err := spool.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func appendAll(t *testing.T, s *spool.Spool, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := s.Append([]byte(fmt.Sprint("record ", i))); err != nil {
			t.Fatal(err)
		}
	}
}

// killed returns a copy of the folder, as a process that is killed now would leave it.
func killed(t *testing.T, dir string) string {
	t.Helper()
	left := t.TempDir()
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return left
}

// A receiver stores the records of batches and detects repeated ones by their ordinals.
type receiver struct {
	last    int64
	records []string
	repeats int
}

func (r *receiver) receive(b spool.Batch) {
	for i, record := range b.Records {
		if at := b.First + int64(i); at > r.last {
			r.last = at
			r.records = append(r.records, string(record))
		} else {
			r.repeats++
		}
	}
}

// drain receives and acknowledges all records.
func (r *receiver) drain(t *testing.T, s *spool.Spool) {
	t.Helper()
	for {
		b, err := s.Next(7)
		if err != nil {
			t.Log(err)
			return
		}
		if len(b.Records) == 0 {
			return
		}
		r.receive(b)
		s.Ack(b)
	}
}

func (r *receiver) want(t *testing.T, from, to int) {
	t.Helper()
	var want []string
	for i := from; i <= to; i++ {
		want = append(want, fmt.Sprint("record ", i))
	}
	if d := cmp.Diff(want, r.records); d != "" {
		t.Error(d)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	s := open(t, options(t.TempDir()))
	r := &receiver{}
	appendAll(t, s, 1, 20)
	r.drain(t, s)
	appendAll(t, s, 21, 40)
	r.drain(t, s)
	r.want(t, 1, 40)
	if r.repeats > 0 {
		t.Errorf("%d records were repeated", r.repeats)
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	s := open(t, options(dir))
	id := s.ID()
	appendAll(t, s, 1, 30)
	r.drain(t, s)
	appendAll(t, s, 31, 45)
	for round := range 3 {
		dir = killed(t, dir)
		s = open(t, options(dir))
		if s.ID() != id {
			t.Error("the ID changed")
		}
		appendAll(t, s, 46+10*round, 55+10*round)
		r.drain(t, s)
	}
	r.want(t, 1, 75)
}

func TestTornRecord(t *testing.T) {
	t.Parallel()
	for _, zeroed := range []bool{false, true} {
		tear(t, zeroed)
	}
}

func tear(t *testing.T, zeroed bool) {
	t.Helper()
	for cut := int64(1); cut < 15; cut++ {
		dir, r := t.TempDir(), &receiver{}
		s := open(t, options(dir))
		appendAll(t, s, 1, 9)
		dir = killed(t, dir)
		file := segmentsIn(t, dir)[0]
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole := bytes.TrimRight(raw, "\x00")
		torn := whole[:int64(len(whole))-cut]
		if zeroed { // as an interrupted copy leaves it
			torn = append(slices.Clone(torn), make([]byte, 100)...)
		}
		if err := os.WriteFile(file, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, options(dir))
		appendAll(t, s, 9, 12)
		r.drain(t, s)
		r.want(t, 1, 12)
	}
}

// TestBrokenFile truncates the active segment under a running process, as a failing disk
// might. The spool continues with another file.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	s := open(t, options(dir))
	appendAll(t, s, 1, 3)
	r.drain(t, s)
	if err := os.Truncate(segmentsIn(t, dir)[0], 0); err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, 4, 6)
	r.drain(t, s)
	r.want(t, 1, 6)
}

// TestUnusedSpaceIsFreed verifies that the space that a killed process had allocated is
// freed by the next start.
func TestUnusedSpaceIsFreed(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	for n := range 5 {
		s := open(t, options(dir))
		appendAll(t, s, n, n)
		dir = killed(t, dir)
	}
	s := open(t, options(dir))
	if names := segmentsIn(t, dir); len(names) != 6 {
		t.Errorf("the files are %q, want 6", names)
	}
	for _, name := range segmentsIn(t, dir)[:5] {
		if info, err := os.Stat(name); err != nil || info.Size() > 50 {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
	r.drain(t, s)
	r.want(t, 0, 4)
}

func segmentsIn(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v %v", names, err)
	}
	return names
}

// TestPowerCut loses records from the disk that were already delivered. Later records must
// get new ordinals.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	s := open(t, options(dir))
	appendAll(t, s, 1, 5)
	left := killed(t, dir)
	appendAll(t, s, 6, 10)
	r.drain(t, s)
	s = open(t, options(left))
	appendAll(t, s, 11, 15)
	r.drain(t, s)
	r.want(t, 1, 15)
}

func TestBound(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	o := options(dir)
	o.Limit = 64 * 100
	s := open(t, o)
	appendAll(t, s, 1001, 2000)
	stats := s.Stats()
	if stats.Bytes > o.Limit || stats.Bytes < o.Limit*9/10 || stats.Dropped == 0 {
		t.Errorf("%+v", stats)
	}
	r.drain(t, s)
	r.want(t, 1001+int(stats.Dropped), 2000)
	if again := s.Stats(); again.Dropped != stats.Dropped || len(segmentsIn(t, dir)) != 1 {
		t.Errorf("%+v, %v", again, segmentsIn(t, dir))
	}
}

// TestUnacknowledged verifies that unacknowledged records are returned again, and that Ack
// of a batch that was dropped in the meantime has no effect.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.Limit = 64 * 100
	s, r := open(t, o), &receiver{}
	appendAll(t, s, 1, 25)
	first, err := s.Next(7)
	if err != nil || len(first.Records) != 7 {
		t.Fatalf("%v, %v", first, err)
	}
	r.receive(first)
	r.drain(t, s)
	r.want(t, 1, 25)
	if r.repeats != 7 {
		t.Errorf("%d records were repeated", r.repeats)
	}
	appendAll(t, s, 26, 30)
	stale, err := s.Next(7)
	if err != nil {
		t.Fatal(err)
	}
	appendAll(t, s, 1001, 2000)
	before := s.Stats()
	if s.Ack(stale); s.Stats() != before || before.Dropped < 5 {
		t.Errorf("%+v became %+v", before, s.Stats())
	}
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	s := open(t, o)
	r := &receiver{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				if err := s.Append([]byte("a"), []byte(strings.Repeat("b", 30))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { wg.Wait(); close(written) }()
	for more := true; more; {
		select {
		case <-s.Wake():
		case <-written:
			more = false
		}
		r.drain(t, s)
	}
	if len(r.records) != 8000 || r.repeats != 0 || s.Stats().Dropped != 0 {
		t.Errorf("got %d, %d repeats", len(r.records), r.repeats)
	}
}

func TestOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, options(dir))
	if _, err := spool.Open(options(dir)); err == nil {
		t.Error("a second Open succeeded")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Append([]byte("late")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	open(t, options(dir))
}

// TestStartingChild closes the spool while a child process, which has not yet executed its
// program, still shares the lock file. The lock must be released.
func TestStartingChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, options(dir))
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(files) == 0 {
		t.Skip("/proc/self/fd is not available")
	}
	lock := -1
	for _, f := range files {
		if path, err := os.Readlink(f); err == nil && path == filepath.Join(dir, "lock") {
			if lock, err = strconv.Atoi(filepath.Base(f)); err != nil {
				t.Fatal(err)
			}
		}
	}
	child, err := syscall.Dup(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(child) }()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, options(dir))
}

func TestRecordTooLong(t *testing.T) {
	t.Parallel()
	s := open(t, options(t.TempDir()))
	if err := s.Append(make([]byte, spool.MaxRecord), nil); err != nil {
		t.Error(err)
	}
	if err := s.Append(make([]byte, spool.MaxRecord+1)); err == nil {
		t.Error("a record above the limit was accepted")
	}
}

// TestContentChanges damages the active segment under a running process. The rest of the
// segment is dropped.
func TestContentChanges(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), &receiver{}
	s := open(t, options(dir))
	appendAll(t, s, 1, 10)
	if err := os.Truncate(segmentsIn(t, dir)[0], 20); err != nil {
		t.Fatal(err)
	}
	r.drain(t, s)
	appendAll(t, s, 11, 12)
	r.drain(t, s)
	r.want(t, 11, 12)
	if got := s.Stats().Dropped; got != 10 {
		t.Errorf("%d dropped", got)
	}
}

// FuzzSegment opens a file with arbitrary content. Intact records at its start must be
// found, and new records must follow them.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	s, err := spool.Open(options(dir))
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Append([]byte("one"), nil, []byte("three")); err != nil {
		f.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	whole, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(whole, whole...))
	f.Add([]byte{0xff, 0xff, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "00000000000000000001.seg"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, options(dir))
		if err := s.Append([]byte("new")); err != nil {
			t.Fatal(err)
		}
		r := &receiver{}
		r.drain(t, s)
		if n := len(r.records); n == 0 || r.records[n-1] != "new" {
			t.Errorf("got %q", r.records)
		}
		if rest, ok := strings.CutPrefix(string(content), string(whole)); ok && (len(r.records) < 4 || rest == "" && len(r.records) != 4) {
			t.Errorf("got %q", r.records)
		}
	})
}
