package layering_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// TestHosts checks that the builds of a worker together keep to the limit of a host, and
// that all of them complete.
func TestHosts(t *testing.T) {
	t.Parallel()
	const builds = 2 // builds that may each fetch one more
	var now, most atomic.Int32
	full := make(chan struct{})
	rec := channel(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		if n == limits.ArtifactsOfHost+builds {
			close(full) // the first ones are all waiting
		}
		select {
		case <-full:
		case <-r.Context().Done():
		}
		serve(w, r)
	})
	var hosts layering.Hosts
	var all sync.WaitGroup
	var of [builds]*layering.Fetcher
	for i := range of {
		of[i] = fetcher()
		of[i].Hosts = &hosts
	}
	for i := range 3 * limits.ArtifactsOfHost {
		all.Go(func() {
			file, _, err := of[i%builds].Fetch(context.Background(), rec)
			if err != nil {
				t.Error(err)
				return
			}
			_ = file.Close()
		})
	}
	all.Wait()
	if n := most.Load(); n != limits.ArtifactsOfHost+builds {
		t.Errorf("the host was asked for %d at a time", n)
	}
}

// TestRest checks that a host's requested pause applies to all builds, and that no build
// waits for a very long one.
func TestRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, after string
		code        int
		waits       []time.Duration
		why         string
	}{
		{"too many requests", "7", http.StatusTooManyRequests, []time.Duration{7 * time.Second, 7 * time.Second}, ""},
		{"unavailable", "7", http.StatusServiceUnavailable, []time.Duration{7 * time.Second, 7 * time.Second}, ""},
		{"without Retry-After", "", http.StatusTooManyRequests, []time.Duration{time.Second}, ""},
		{"too long a pause", "3600", http.StatusTooManyRequests, nil, "answered 429, and can be asked again in 1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			rec := channel(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) > 1 {
					serve(w, r)
					return
				}
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.WriteHeader(c.code)
			})
			var waits []time.Duration
			f := fetcher()
			f.Hosts = &layering.Hosts{}
			f.Wait = func(_ context.Context, d time.Duration) error {
				waits = append(waits, d.Round(time.Second))
				return nil
			}
			file, _, err := f.Fetch(context.Background(), rec)
			if c.why != "" {
				if e, ok := fault.As(err); !ok || !strings.Contains(e.Public, c.why) || e.RetryAfter != time.Hour || asked.Load() != 1 {
					t.Errorf("after %d requests it ended with %v", asked.Load(), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = file.Close()
			// The second wait is that of the next build that uses the host.
			if len(waits) != len(c.waits) || waits[0] != c.waits[0] || waits[len(waits)-1] > c.waits[len(c.waits)-1] {
				t.Errorf("it waited %v, want %v", waits, c.waits)
			}
		})
	}
}

// roundTrip responds without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// stuck is a body that stalls after some bytes.
type stuck struct {
	io.Reader
	ctx context.Context //nolint:containedctx // of its request
}

func (s stuck) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		<-s.ctx.Done()
		err = s.ctx.Err()
	}
	return n, err
}

// TestStall checks that a stalled download is retried, and that a slow one is waited for.
func TestStall(t *testing.T) {
	t.Parallel()
	for name, times := range map[string]int32{"once": 1, "always": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked int32
				client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					body := io.Reader(slowServer{strings.NewReader(content)})
					if asked++; asked <= times {
						body = stuck{strings.NewReader(content[:1000]), r.Context()}
					}
					return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: io.NopCloser(body)}, nil
				})}
				f := &layering.Fetcher{Client: client, Dir: t.TempDir(), Hosts: &layering.Hosts{}}
				rec := spec.Record{FileName: "a-1-0.conda", URL: "http://channel/a-1-0.conda", SHA256: sumOf(content), Size: int64(len(content))}
				file, _, err := f.Fetch(t.Context(), rec)
				if err == nil {
					_ = file.Close()
				}
				progressWriter := errors.Is(err, fault.Unavailable) && strings.Contains(err.Error(), "the download from channel was interrupted")
				if (err == nil) != (times == 1) || err != nil && !progressWriter {
					t.Errorf("after %d requests: %v", asked, err)
				}
			})
		})
	}
}

// slowServer returns a few bytes at half of the stall timeout.
type slowServer struct{ io.Reader }

func (s slowServer) Read(p []byte) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.ArtifactStall/2) // in the test's fake time
	defer cancel()
	<-ctx.Done()
	return s.Reader.Read(p)
}
