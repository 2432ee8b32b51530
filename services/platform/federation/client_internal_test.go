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

// endlessServer starts a server that responds with head, followed by repetitions of unit
// until the client disconnects, or 64 MiB.
func endlessServer(t testing.TB, head, unit string) *httptest.Server {
	t.Helper()
	piece := strings.Repeat(unit, 64<<10/len(unit))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < 64<<20; n += len(piece) {
			_, err = io.WriteString(w, piece)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestResponsesAreBounded checks the memory that responses of another platform can take.
func TestResponsesAreBounded(t *testing.T) {
	f := &Service{client: http.DefaultClient}
	for _, tc := range []struct{ name, head, unit string }{
		{"endless list", `{"credentials":[`, `{},`},
		{"endless string", `{"a":"`, `x`},
	} {
		s := endlessServer(t, tc.head, tc.unit)
		heap.Within(t, 0, 64<<20, nil, func() {
			var result struct{ Credentials []struct{ A [20]string } }
			err := f.call(t.Context(), request{method: http.MethodGet, endpoint: s.URL, path: "/x"}, &result)
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("%s: got %v", tc.name, err)
			}
		})
	}
	raw := []byte(`{"credentials":[` + strings.Repeat(`{},`, limits.PlatformAnswer/3-100) + `{}]}`)
	heap.Within(t, 8, 1<<20, raw, func() {
		var result struct{ Credentials []struct{ A [20]string } }
		if responseLimits().Decode(raw, &result) == nil {
			t.Error("a million empty records are decoded")
		}
	})
}

// TestBusyPlatform checks that a request is retried after a short Retry-After, and that a long
// one is returned to the client.
func TestBusyPlatform(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, after string
		calls       int
		wait        time.Duration // in the fault that get returns
	}{
		{"one second", "1", 2, 0},
		{"one minute", "60", 1, time.Minute},
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
				t.Errorf("got %d requests, error %v, Retry-After %s", calls, err, wait)
			}
		})
	}
}
