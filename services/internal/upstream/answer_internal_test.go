package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     time.Duration
	}{
		{"nothing", "", 0},
		{"seconds", "7", 7 * time.Second},
		{"zero", "0", 0},
		{"negative", "-5", 0},
		{"far away", "999999999", 24 * time.Hour},
		{"larger than a number", "99999999999999999999", 0},
		{"fraction", "1.5", 0},
		{"words", "soon", 0},
		{"date", "Sat, 01 Jan 2000 00:01:00 GMT", time.Minute},
		{"a past date", "Fri, 31 Dec 1999 23:00:00 GMT", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // its clock begins with the year 2000
				if got := RetryAfter(&http.Response{Header: http.Header{"Retry-After": {tc.in}}}); got != tc.want {
					t.Errorf("got %s, want %s", got, tc.want)
				}
			})
		})
	}
}

func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	for range 1000 {
		first, second := backoff(1), backoff(2)
		if first < 50*time.Millisecond || first > 150*time.Millisecond || second < 200*time.Millisecond || second > 600*time.Millisecond {
			t.Fatalf("waits are %s and %s", first, second)
		}
	}
}

func TestReadToken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in, want string
		life           time.Duration // at most; it may be a tenth less
	}{
		{"token", `{"token":"abc","expires_in":300}`, "Bearer abc", 300 * time.Second},
		{"access_token", `{"access_token":"abc","expires_in":300}`, "Bearer abc", 300 * time.Second},
		{"both", `{"access_token":"x","token":"abc"}`, "Bearer abc", time.Minute},
		{"no life", `{"token":"abc"}`, "Bearer abc", time.Minute},
		{"null life", `{"token":"abc","expires_in":null}`, "Bearer abc", time.Minute},
		{"negative life", `{"token":"abc","expires_in":-1}`, "Bearer abc", time.Minute},
		{"endless life", `{"token":"abc","expires_in":1e300}`, "Bearer abc", time.Minute},
		{"unknown members", `{"token":"abc","issued_at":"x","scope":1}`, "Bearer abc", time.Minute},
		{"empty", `{"token":""}`, "", 0},
		{"no token", `{}`, "", 0},
		{"a line break", `{"token":"a\r\nX: y"}`, "", 0},
		{"a blank", `{"token":"a b"}`, "", 0},
		{"not ASCII", `{"token":"ä"}`, "", 0},
		{"not JSON", `<html>`, "", 0},
		{"a list", `[]`, "", 0},
		{"nothing", ``, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := readToken(strings.NewReader(tc.in))
			if got.value != tc.want || (err != nil) != (tc.want == "") {
				t.Fatalf("got %q, %v; want %q", got.value, err, tc.want)
			}
			if left := time.Until(got.expires); left > tc.life || left < tc.life*8/10 && tc.life > 0 {
				t.Errorf("the token is valid for %s, want slightly less than %s", left, tc.life)
			}
		})
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add([]byte(`{"token":"abc","expires_in":300}`))
	f.Add([]byte(`{"access_token":"a b","expires_in":1e5}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := readToken(bytes.NewReader(raw))
		if err == nil && (!strings.HasPrefix(h.value, "Bearer ") || strings.ContainsAny(h.value, "\r\n")) {
			t.Errorf("%q became the header %q", raw, h.value)
		}
	})
}

func TestRangeStart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     int64
	}{
		{"none", "", 0},
		{"start", "bytes 0-9/10", 0},
		{"middle", "bytes 5-9/10", 5},
		{"unknown length", "bytes 5-9/*", 5},
		{"large", "bytes 5000000000-5000000009/9000000000", 5_000_000_000},
		{"words", "bytes a-b/c", 0},
	} {
		if got := rangeStart(tc.in); got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, got, tc.want)
		}
	}
}

// pieces is a body that returns an error at its end.
type pieces struct {
	io.Reader
	end    error
	closed bool
}

func (p *pieces) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if errors.Is(err, io.EOF) {
		err = p.end
	}
	return n, err
}

func (p *pieces) Close() error { p.closed = true; return nil }

func TestResuming(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	const whole = "0123456789"
	for _, tc := range []struct {
		name  string
		cuts  []int // lengths of the pieces; each piece ends with an error unless the content is complete
		want  string
		fails bool
	}{
		{"whole", []int{10}, whole, false},
		{"cut once", []int{4, 6}, whole, false},
		{"cut before the first byte", []int{0, 10}, whole, false},
		{"cut five times", []int{1, 1, 1, 1, 1, 5}, whole, false},
		{"cut six times", []int{1, 1, 1, 1, 1, 1, 4}, "012345", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			next, at := 0, 0
			piece := func() *pieces {
				p := &pieces{Reader: strings.NewReader(whole[at : at+tc.cuts[next]]), end: broken}
				if at, next = at+tc.cuts[next], next+1; at == len(whole) {
					p.end = io.EOF
				}
				return p
			}
			r := &resumingReader{ctx: t.Context(), body: piece(), left: 10, reopen: func(from, left int64) (io.ReadCloser, error) {
				if int(from) != at || int(left) != 10-at {
					t.Errorf("asks for %d bytes from %d, want %d from %d", left, from, 10-at, at)
				}
				return piece(), nil
			}}
			got, err := io.ReadAll(r)
			if string(got) != tc.want || errors.Is(err, broken) != tc.fails {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestResumingClosesWhatBroke(t *testing.T) {
	t.Parallel()
	first := &pieces{Reader: strings.NewReader("01"), end: io.ErrUnexpectedEOF}
	second := &pieces{Reader: strings.NewReader("23"), end: io.EOF}
	r := &resumingReader{ctx: t.Context(), body: first, left: 4, reopen: func(int64, int64) (io.ReadCloser, error) { return second, nil }}
	if _, err := io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil || !first.closed || !second.closed {
		t.Errorf("%v; closed: %v, %v", err, first.closed, second.closed)
	}
}
