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

// Hosts paces what a worker fetches, over all its builds: no host is asked for more than
// limits.ArtifactsOfHost artifacts at a time beside one of each build, and one that wants
// to be left alone is.
// The zero value is ready. Safe for concurrent use.
type Hosts struct {
	mu  sync.Mutex
	all map[string]*host
}

// host is one that somebody uses or waits for, or that wants to be left alone.
type host struct {
	slots chan struct{}
	users int
	until time.Time
}

// enter waits for a turn at a host until ctx ends; leave gives it to the next.
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

// host is called with the lock held.
func (h *Hosts) host(name string) *host {
	if h.all == nil {
		h.all = map[string]*host{}
	}
	if h.all[name] == nil {
		h.all[name] = &host{slots: make(chan struct{}, limits.ArtifactsOfHost)}
	}
	return h.all[name]
}

// forget removes the hosts that there is nothing to know of. It is called with the lock
// held.
func (h *Hosts) forget(now time.Time) {
	for name, at := range h.all {
		if at.users == 0 && !at.until.After(now) {
			delete(h.all, name)
		}
	}
}

// rest leaves a host alone for a while, whoever wants something of it.
func (h *Hosts) rest(name string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(time.Now())
	if until := time.Now().Add(d); d > 0 && until.After(h.host(name).until) {
		h.host(name).until = until
	}
}

// rests is for how long a host is still left alone.
func (h *Hosts) rests(name string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[name] == nil {
		return 0
	}
	return time.Until(h.all[name].until)
}

// busy is a host that answers that it has too much to do.
type busy struct {
	host string
	code int
	// after is when it wants to be asked again; 0 is not said.
	after time.Duration
}

func (b *busy) Error() string {
	text := fmt.Sprintf("%s answered %d", b.host, b.code)
	if b.after > 0 {
		text += fmt.Sprintf(", and wants to be asked again in %s", b.after.Round(time.Second))
	}
	return text
}

// tooBusy reads such an answer; nil for another.
func tooBusy(resp *http.Response) *busy {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return nil
	}
	return &busy{host: resp.Request.URL.Host, code: resp.StatusCode, after: upstream.RetryAfter(resp)}
}

// steady ends a request of which nothing comes for limits.ArtifactStall.
type steady struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (s *steady) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 {
		s.timer.Reset(limits.ArtifactStall)
	}
	return n, err
}
