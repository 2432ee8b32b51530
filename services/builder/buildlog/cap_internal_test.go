package buildlog

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestLogCap(t *testing.T) {
	t.Parallel()
	size := lineCost + 1 // cost of a line with one letter
	for _, c := range []struct {
		name  string
		lines string
		want  string
	}{
		{"nothing", "", ""},
		{"all fits the head", "abc", "abc"},
		{"all fits head and tail", "abcde", "abcde"},
		{"the middle is left out", "abcdefgh", "abc…gh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLogCap(3*size, 2*size)
			var got strings.Builder
			at := time.UnixMilli(1_000)
			for _, line := range c.lines {
				at = at.Add(time.Millisecond)
				if e := l.add("", string(line), at); e != nil {
					got.WriteString(e.GetText())
				}
			}
			last := int64(1_000)
			for _, e := range l.end() {
				if e.GetTimeMs() <= last {
					t.Errorf("%q is of %d, after a line of %d", e.GetText(), e.GetTimeMs(), last)
				}
				last = e.GetTimeMs()
				if strings.HasPrefix(e.GetText(), "… 3 lines (0.0 MiB) left out") {
					got.WriteString("…")
					continue
				}
				got.WriteString(e.GetText())
			}
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCleanLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\xffb": "a\uFFFDb", "a\x00b": "a\uFFFDb", "a\r\nb": "a b", "": "",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	long := Clean(strings.Repeat("ä", LineBytes))
	if len(long) > LineBytes+2 || !utf8.ValidString(long) || !strings.HasSuffix(long, "(cut)") {
		t.Errorf("a long line has %d bytes and ends with %q", len(long), long[len(long)-10:])
	}
}

func BenchmarkLogCap(b *testing.B) {
	l := newLogCap(headBytes, tailBytes)
	line := strings.Repeat("x", 100)
	b.ReportAllocs()
	for b.Loop() {
		l.add("", line, time.Now())
	}
}
