package federation

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/heap"
)

// answering is a server that answers head, and then one until it is left alone.
func answering(t testing.TB, head, one string) *httptest.Server {
	t.Helper()
	piece := strings.Repeat(one, 64<<10/len(one))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < 64<<20; n += len(piece) {
			_, err = io.WriteString(w, piece)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestForeignAnswersAreBounded asks a platform that answers what takes memory.
func TestForeignAnswersAreBounded(t *testing.T) {
	f := &Service{client: http.DefaultClient}
	for _, tc := range []struct{ name, head, one string }{
		{"without an end", `{"credentials":[`, `{},`},
		{"of one text", `{"a":"`, `x`},
	} {
		s := answering(t, tc.head, tc.one)
		heap.Within(t, 0, 64<<20, nil, func() {
			var answer struct{ Credentials []struct{ A [20]string } }
			err := f.ask(t.Context(), request{method: http.MethodGet, endpoint: s.URL, path: "/x"}, &answer)
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("%s: got %v", tc.name, err)
			}
		})
	}
	raw := []byte(`{"credentials":[` + strings.Repeat(`{},`, limits.PlatformAnswer/3-100) + `{}]}`)
	heap.Within(t, 8, 1<<20, raw, func() {
		var answer struct{ Credentials []struct{ A [20]string } }
		if answerShape().Decode(raw, &answer) == nil {
			t.Error("a million credentials of nothing are read")
		}
	})
}

// TestBusyPlatform: a platform that has too many requests is asked again when it says so,
// unless that is long.
func TestBusyPlatform(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, after string
		calls       int
		wait        time.Duration // what the client is told
	}{
		{"for a second", "1", 2, 0},
		{"for a minute", "60", 1, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls == 1 {
					w.Header().Set("Retry-After", tc.after)
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				_, _ = io.WriteString(w, `{}`)
			}))
			t.Cleanup(s.Close)
			f := &Service{client: http.DefaultClient}
			err := f.get(t.Context(), s.URL, "/user-info", "token", nil, &struct{}{})
			var wait time.Duration
			if e, ok := fault.As(err); ok {
				wait = e.RetryAfter
			}
			if calls != tc.calls || wait != tc.wait || (err != nil) != (wait > 0) {
				t.Errorf("asked %d times: %v, to come again in %s", calls, err, wait)
			}
		})
	}
}
