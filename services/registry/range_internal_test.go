package registry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/limits"
)

func TestParseRanges(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf("%d-%d", 2*i, 2*i))
		}
		return "bytes=" + strings.Join(out, ",")
	}
	for _, c := range []struct {
		name, header string
		size         int64
		want         string // the ranges, "" for the whole blob, or "none"
	}{
		{"one", "bytes=0-3", 10, "bytes=0-3"},
		{"two", "bytes=0-0,5-6", 10, "bytes=0-0,5-6"},
		{"adjacent", "bytes=0-4,5-6", 10, "bytes=0-4,5-6"},
		{"spaces and empty elements", "bytes= 0-0 ,,\t5-6,", 10, "bytes=0-0,5-6"},
		{"the last one behind the end", "bytes=0-0,5-100", 10, "bytes=0-0,5-9"},
		{"the last bytes", "bytes=0-0,-3", 10, "bytes=0-0,7-9"},
		{"more than all bytes", "bytes=-30", 10, "bytes=0-9"},
		{"the rest", "bytes=0-0,5-", 10, "bytes=0-0,5-9"},
		{"one of two is behind the end", "bytes=0-0,10-12", 10, "bytes=0-0"},
		{"all are behind the end", "bytes=10-,12-13", 10, "none"},
		{"none of the last bytes", "bytes=-0", 10, "none"},
		{"of an empty blob", "bytes=0-", 0, "none"},
		{"the last bytes of an empty blob", "bytes=-1", 0, ""},
		{"overlapping", "bytes=0-4,4-6", 10, ""},
		{"overlapping the last bytes", "bytes=0-4,-6", 10, ""},
		{"descending", "bytes=5-6,0-1", 10, ""},
		{"equal", "bytes=0-1,0-1", 10, ""},
		{"one is backwards", "bytes=0-0,6-5", 10, ""},
		{"no number", "bytes=0-0,a-5", 10, ""},
		{"a sign", "bytes=+1-5", 10, ""},
		{"a number that is too long", "bytes=0-1234567890123456789", 10, ""},
		{"no dash", "bytes=3", 10, ""},
		{"a dash", "bytes=-", 10, ""},
		{"an empty list", "bytes=", 10, ""},
		{"another unit", "lines=0-1", 10, ""},
		{"the maximum number", many(limits.BlobRanges), 1 << 20, many(limits.BlobRanges)},
		{"one more", many(limits.BlobRanges + 1), 1 << 20, ""},
		{"one more behind the end", many(limits.BlobRanges + 1), 2, ""},
	} {
		parts, ok := parseRanges(c.header, c.size)
		got := ""
		if len(parts) > 0 {
			got = rangeHeader(parts)
		}
		if !ok {
			got = "none"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// FuzzRanges compares the ranges with those of net/http, which accepts ranges that overlap or descend.
func FuzzRanges(f *testing.F) {
	for _, header := range []string{"bytes=0-3", "bytes=0-0, 5-6,,-2", "bytes=1-,5-", "bytes=-0", "bytes=5-2", "bytes=99-100,3-4", "bytes=-", "lines=1-2"} {
		f.Add(header, uint16(20))
	}
	f.Fuzz(func(t *testing.T, header string, n uint16) {
		size := int64(n)
		parts, ok := parseRanges(header, size)
		end, sum := int64(0), int64(0)
		for _, p := range parts {
			if p.length < 1 || p.start < end || p.end() > size {
				t.Fatalf("%q of %d bytes has the ranges %v", header, size, parts)
			}
			end, sum = p.end(), sum+p.length
		}
		switch {
		case sum > size || len(parts) > limits.BlobRanges || !ok && len(parts) > 0:
			t.Fatalf("%q of %d bytes has the ranges %v, %v", header, size, parts, ok)
		case len(parts) == 0 && ok || strings.Contains(header, "-0"): // net/http responds to -0 with 206
			return
		}
		if again, ok := parseRanges(rangeHeader(parts), size); len(parts) > 0 && (!ok || !cmp.Equal(again, parts, cmp.AllowUnexported(byteRange{}))) {
			t.Fatalf("the ranges %v are read as %v", parts, again)
		}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("Range", header)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", int(size))))
		switch got := w.Header().Get("Content-Range"); {
		case !ok && w.Code != http.StatusRequestedRangeNotSatisfiable && size > 0:
			t.Errorf("%q of %d bytes is not satisfiable, and net/http responds with %d", header, size, w.Code)
		case len(parts) == 1 && w.Code == http.StatusPartialContent && got != parts[0].contentRange(size):
			t.Errorf("%q of %d bytes is %s, and net/http responds with %s", header, size, parts[0].contentRange(size), got)
		case len(parts) > 1 && w.Code == http.StatusPartialContent && strings.Count(w.Body.String(), "Content-Range: bytes ") != len(parts):
			t.Errorf("%q of %d bytes is %v, and net/http responds with\n%s", header, size, parts, w.Body)
		case len(parts) > 0 && w.Code != http.StatusPartialContent:
			t.Errorf("%q of %d bytes is %v, and net/http responds with %d", header, size, parts, w.Code)
		}
	})
}

// TestSpans checks that no more requests are sent than the limit, and that small gaps are read.
func TestSpans(t *testing.T) {
	t.Parallel()
	every := func(n int, gap func(i int) int64) (out []byteRange) {
		at := int64(0)
		for i := range n {
			out = append(out, byteRange{at, 10})
			at += 10 + gap(i)
		}
		return out
	}
	for _, c := range []struct {
		name  string
		parts []byteRange
		want  int
	}{
		{"one", every(1, func(int) int64 { return 0 }), 1},
		{"adjacent", every(100, func(int) int64 { return 0 }), 1},
		{"small gaps", every(100, func(int) int64 { return limits.BlobGap }), 1},
		{"large gaps", every(10, func(int) int64 { return limits.BlobGap + 1 }), 10},
		{"as many large gaps as possible", every(limits.BlobSpans, func(int) int64 { return limits.BlobGap + 1 }), limits.BlobSpans},
		{"too many equal gaps", every(limits.BlobRanges, func(int) int64 { return limits.BlobGap + 1 }), limits.BlobSpans},
		{"the largest gaps", every(limits.BlobRanges, func(i int) int64 { return limits.BlobGap + int64(i) }), limits.BlobSpans},
	} {
		got := spansOf(c.parts)
		var all []byteRange
		for i, s := range got {
			all = append(all, s...)
			if i > 0 && s.whole().start < got[i-1].whole().end() {
				t.Errorf("%s: the spans %v overlap", c.name, got)
			}
		}
		if len(got) != c.want || !cmp.Equal(all, c.parts, cmp.AllowUnexported(byteRange{})) {
			t.Errorf("%s: %d spans with %d ranges, want %d", c.name, len(got), len(all), c.want)
		}
	}
}
