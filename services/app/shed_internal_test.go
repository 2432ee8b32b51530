package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// TestBoundsAreTheGateways compares the gateway's limits with the table, which it cannot
// import.
func TestBoundsAreTheGateways(t *testing.T) {
	t.Parallel()
	if gateway.MaxBody != limits.RequestBody || gateway.MaxValues != limits.RequestValues || gateway.MaxDepth != limits.RequestDepth ||
		gateway.MaxPlatformBody != limits.RunBody || gateway.MaxPlatformValues != limits.RunValues ||
		gateway.MaxBatch != limits.BatchRequests || gateway.MaxBatchValues != limits.BatchValues ||
		gateway.MaxSession != limits.PageSignIn || gateway.MaxSessionToken != limits.PageToken || gateway.SessionLife != limits.PageSession {
		t.Error("the gateway has other limits than the table")
	}
}

func TestBodyMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ set, limit, want int64 }{
		{0, 0, 256 << 20}, {0, 8 << 30, 256 << 20}, {0, 512 << 20, 128 << 20}, {1 << 30, 512 << 20, 1 << 30},
	} {
		if got := bodyMemory(c.set, c.limit); got != c.want {
			t.Errorf("body_memory %d with memory_limit %d is %d, want %d", c.set, c.limit, got, c.want)
		}
	}
}

// TestBodiesShareMemory checks that bodies within the limit are accepted, that a client can
// only have one body of the largest size at a time, and that small bodies do not wait for
// large ones.
func TestBodiesShareMemory(t *testing.T) {
	t.Parallel()
	s := newShedder(0, 0, fairshare.NewTurns(1, time.Minute), prometheus.NewRegistry())
	acquire := func(client string, size int64) (func(), error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.ContentLength = size
		r, release, err := s.admit(r, rpc.Call{ClientIP: netip.MustParseAddr(client)})
		if err != nil || size <= gateway.SmallBody {
			return release, err
		}
		ctx, cancel := context.WithCancel(r.Context())
		cancel() // it does not wait
		b := largeBodies{s, fairshare.Address(netip.MustParseAddr(client))}
		_, release, err = b.Acquire(ctx, "", size)
		return release, err
	}
	first, err := acquire("192.0.2.1", limits.RequestBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire("192.0.2.1", limits.RequestBody); err == nil {
		t.Error("a client has two of the largest bodies")
	}
	second, err := acquire("198.51.100.1", limits.RequestBody/5)
	if err != nil {
		t.Errorf("another client waits: %v", err)
	}
	if _, err := acquire("203.0.113.1", limits.RequestBody/5); err == nil {
		t.Error("more fits than there is memory")
	}
	small, err := acquire("203.0.113.1", gateway.SmallBody)
	if err != nil {
		t.Errorf("a small body waits: %v", err)
	}
	for _, release := range []func(){first, second, small} {
		release()
	}
	if third, err := acquire("203.0.113.1", limits.RequestBody); err != nil {
		t.Errorf("memory was not returned: %v", err)
	} else {
		third()
	}
}

// TestManySmallBodies rejects a client's small bodies beyond its share, with a fault that
// says when to try again, and accepts those of another client.
func TestManySmallBodies(t *testing.T) {
	t.Parallel()
	s := newShedder(0, 160<<20, fairshare.NewTurns(1, time.Minute), prometheus.NewRegistry())
	send := func(client string) error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("{}"))
		r.ContentLength = -1
		_, _, err := s.admit(r, rpc.Call{ClientIP: netip.MustParseAddr(client)})
		return err
	}
	for range 2 {
		if err := send("192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	err := send("192.0.2.1")
	if e, ok := fault.As(err); !ok || !errors.Is(err, fault.Unavailable) || e.RetryAfter == 0 {
		t.Errorf("a third body of a client gets %v", err)
	}
	if err := send("198.51.100.1"); err != nil {
		t.Errorf("another client gets %v", err)
	}
}
