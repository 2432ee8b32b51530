package app

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/limits"
)

// TestBoundsAreTheGateways: it cannot read the table itself.
func TestBoundsAreTheGateways(t *testing.T) {
	t.Parallel()
	if gateway.MaxBody != limits.RequestBody || gateway.MaxValues != limits.RequestValues || gateway.MaxDepth != limits.RequestDepth ||
		gateway.MaxPlatformBody != limits.RunBody || gateway.MaxPlatformValues != limits.RunValues {
		t.Error("the gateway has other bounds than the table")
	}
}

// TestBodiesInFlight lets so many bytes of bodies in, from one client no more than half
// of them, and small ones a while longer.
func TestBodiesInFlight(t *testing.T) {
	t.Parallel()
	s := newShedder(0, 128<<20, prometheus.NewRegistry())
	send := func(client string, n int) (release func(), err error) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", n)))
		release = s.count(r, client)
		_, err = io.Copy(io.Discard, r.Body)
		return release, err
	}
	var releases []func()
	must := func(what, client string, n int, fits bool) {
		t.Helper()
		release, err := send(client, n)
		releases = append(releases, release)
		if fits != (err == nil) || err != nil && !errors.Is(err, gateway.ErrBusy) {
			t.Errorf("%s: got %v", what, err)
		}
		if err != nil {
			release()
		}
	}
	must("the first", "a", 30<<20, true)
	must("the second", "a", 30<<20, true)
	must("more than half", "a", 30<<20, false)
	must("another client", "b", 60<<20, true)
	must("more than all", "c", 30<<20, false)
	must("a small one", "c", 1000, true)
	for _, release := range releases {
		release()
	}
	if s.held != 0 || len(s.clients) != 0 {
		t.Errorf("%d bytes of %d clients are still held", s.held, len(s.clients))
	}
	must("when all are gone", "c", 30<<20, true)
}
