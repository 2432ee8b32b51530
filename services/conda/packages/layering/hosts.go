package layering

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// Hosts limits the downloads of a worker over all its builds. In addition to one artifact
// of each build, at most limits.ArtifactsOfHost artifacts are fetched from a host at a
// time. If a host requests a pause, all builds wait. The zero value is ready to use. Safe
// for concurrent use.
type Hosts struct {
	mu  sync.Mutex
	all map[string]*host
}

// host is a host that is in use, waited for, or paused.
type host struct {
	slots chan struct{}
	users int
	until time.Time
}

// enter waits for a slot at a host until ctx ends; leave releases it.
func (h *Hosts) enter(ctx context.Context, name string) (leave func(), err error) {
	h.mu.Lock()
	at := h.host(name)
	at.users++
	h.mu.Unlock()
	gone := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		at.users--
		h.forget(time.Now())
	}
	select {
	case at.slots <- struct{}{}:
		return func() { <-at.slots; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}

// host returns the state of a host. It is called with the lock held.
func (h *Hosts) host(name string) *host {
	if h.all == nil {
		h.all = map[string]*host{}
	}
	if h.all[name] == nil {
		h.all[name] = &host{slots: make(chan struct{}, limits.ArtifactsOfHost)}
	}
	return h.all[name]
}

// forget removes hosts without state. It is called with the lock held.
func (h *Hosts) forget(now time.Time) {
	for name, at := range h.all {
		if at.users == 0 && !at.until.After(now) {
			delete(h.all, name)
		}
	}
}

// pause pauses all requests to a host.
func (h *Hosts) pause(name string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(time.Now())
	if until := time.Now().Add(d); d > 0 && until.After(h.host(name).until) {
		h.host(name).until = until
	}
}

// pausedFor returns how long a host is still paused.
func (h *Hosts) pausedFor(name string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[name] == nil {
		return 0
	}
	return time.Until(h.all[name].until)
}

// overloaded is the error of a host that is overloaded.
type overloaded struct {
	host string
	code int
	// after is the pause that the host requests; 0 is unknown.
	after time.Duration
}

func (b *overloaded) Error() string {
	text := fmt.Sprintf("%s answered %d", b.host, b.code)
	if b.after > 0 {
		text += fmt.Sprintf(", and can be asked again in %s", b.after.Round(time.Second))
	}
	return text
}

// tooBusy returns the error for a response with status 429 or 503; nil for other responses.
func tooBusy(resp *http.Response) *overloaded {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	return &overloaded{host: resp.Request.URL.Host, code: resp.StatusCode, after: upstream.RetryAfter(resp)}
}

// stallReader cancels a request that receives nothing for limits.ArtifactStall.
type stallReader struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (s *stallReader) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.timer.Reset(limits.ArtifactStall)
	}
	return n, err
}
