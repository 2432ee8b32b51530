package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// answers serves the n-th request with the n-th handler of a list, and all later requests with
// the last handler. It records the time of each request.
type answers struct {
	mu   sync.Mutex
	came []time.Time
	list []http.HandlerFunc
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	n := min(len(a.came), len(a.list)-1)
	a.came = append(a.came, time.Now())
	a.mu.Unlock()
	a.list[n](w, r)
}

func (a *answers) times() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.came
}

// serve starts a plain registry and a client for it.
func serve(t testing.TB, h http.Handler) (*upstream.Client, upstream.Repository) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	host := strings.TrimPrefix(s.URL, "http://")
	return newClient(t, newEgress(t, "127.0.0.1"), host), upstream.Repository{Host: host, Name: "team/app"}
}

// status returns a handler for a status code with the Retry-After header after, if not empty.
func status(code int, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(code)
	}
}

// good responds with a manifest.
func good(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"schemaVersion":2,"config":{"mediaType":"x","digest":"sha256:` + strings.Repeat("0", 64) + `","size":1}}`))
}

// cut closes the connection without a response.
func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		list  []http.HandlerFunc
		want  error
		after time.Duration
		tries int
	}{
		{"429, then good", []http.HandlerFunc{status(429, ""), good}, nil, 0, 2},
		{"500, then good", []http.HandlerFunc{status(500, ""), good}, nil, 0, 2},
		{"503 twice, then good", []http.HandlerFunc{status(503, "0"), status(503, "0"), good}, nil, 0, 3},
		{"cut, then good", []http.HandlerFunc{cut, good}, nil, 0, 2},
		{"429 for ever", []http.HandlerFunc{status(429, "")}, fault.Exhausted, time.Second, 3},
		{"502 for ever", []http.HandlerFunc{status(502, "")}, fault.Unavailable, 5 * time.Second, 3},
		{"cut for ever", []http.HandlerFunc{cut}, fault.Unavailable, 5 * time.Second, 3},
		{"429, and a long wait", []http.HandlerFunc{status(429, "6"), good}, fault.Exhausted, 6 * time.Second, 1},
		{"503, and a long wait", []http.HandlerFunc{status(503, "3600"), good}, fault.Unavailable, time.Hour, 1},
		{"501", []http.HandlerFunc{status(501, ""), good}, fault.Unavailable, 5 * time.Second, 1},
		{"400", []http.HandlerFunc{status(400, ""), good}, fault.Unavailable, 5 * time.Second, 1},
		{"403", []http.HandlerFunc{status(403, ""), good}, fault.Denied, 0, 1},
		{"404", []http.HandlerFunc{status(404, ""), good}, fault.NotFound, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := &answers{list: tc.list}
			client, repo := serve(t, a)
			_, err := client.Manifest(t.Context(), repo, "1", anonymous)
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if e, ok := fault.As(err); ok && e.RetryAfter != tc.after {
				t.Errorf("try again after %s, want %s", e.RetryAfter, tc.after)
			}
			if got := len(a.times()); got != tc.tries {
				t.Errorf("asked %d times, want %d", got, tc.tries)
			}
		})
	}
}

func TestRetryHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	a := &answers{list: []http.HandlerFunc{status(429, "1"), good}}
	client, repo := serve(t, a)
	if _, err := client.Manifest(t.Context(), repo, "1", anonymous); err != nil {
		t.Fatal(err)
	}
	came := a.times()
	if len(came) != 2 || came[1].Sub(came[0]) < 900*time.Millisecond {
		t.Errorf("asked at %v, want a second between", came)
	}
}

func TestNoRetryBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	a := &answers{list: []http.HandlerFunc{status(429, "5"), good}}
	client, repo := serve(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if _, err := client.Manifest(ctx, repo, "1", anonymous); !errors.Is(err, fault.Exhausted) {
		t.Errorf("got %v, want the fault for the registry's response", err)
	}
	if got := len(a.times()); got != 1 || ctx.Err() != nil {
		t.Errorf("asked %d times; %v", got, ctx.Err())
	}
}

// The first pause is at least 50 ms, so that no retry fits into the deadline.
func TestNoResponseShortlyBeforeDeadline(t *testing.T) {
	t.Parallel()
	client, repo := serve(t, http.HandlerFunc(cut))
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Millisecond)
	defer cancel()
	_, err := client.Manifest(ctx, repo, "1", anonymous)
	if !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Timeout) {
		t.Errorf("got %v", err)
	}
}

func TestTimeoutsAreNotRetried(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	a := &answers{list: []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { <-end }, good}}
	client, repo := serve(t, a)
	t.Cleanup(func() { close(end) })
	client.Impatient(50 * time.Millisecond)
	if _, err := client.Manifest(t.Context(), repo, "1", anonymous); !errors.Is(err, fault.Timeout) {
		t.Errorf("got %v, want fault.Timeout", err)
	}
	if got := len(a.times()); got != 1 {
		t.Errorf("%d requests, want no retry after a timeout", got)
	}
}

func TestCancelledCallIsNotRetried(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	a := &answers{list: []http.HandlerFunc{func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}, good}}
	client, repo := serve(t, a)
	_, err := client.Manifest(ctx, repo, "1", anonymous)
	if _, isFault := fault.As(err); !errors.Is(err, context.Canceled) || isFault {
		t.Errorf("got %v, want the error of the context", err)
	}
	if got := len(a.times()); got != 1 {
		t.Errorf("asked %d times", got)
	}
}

func TestNoServerListening(t *testing.T) {
	t.Parallel()
	host := "127.0.0.1:" + testkit.FreePort(t)
	client := newClient(t, newEgress(t, "127.0.0.1"), host)
	_, err := client.Manifest(t.Context(), upstream.Repository{Host: host, Name: "a"}, "1", anonymous)
	if e, _ := fault.As(err); !errors.Is(err, fault.Unavailable) || e.RetryAfter == 0 {
		t.Errorf("got %v, want fault.Unavailable with a time", err)
	}
}

func TestResponseLengthIsChecked(t *testing.T) {
	t.Parallel()
	client, repo := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(1000))
		_, _ = w.Write([]byte(`{"schemaVersion":2`))
	}))
	if _, err := client.Manifest(t.Context(), repo, "1", anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want fault.Unavailable", err)
	}
}
