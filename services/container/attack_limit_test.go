package container_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// counted returns a service that limits requests, with the settings user and anonymous.
func counted(t *testing.T, user, anonymous string) *harness {
	t.Helper()
	return newHarnessWith(t, testkit.SQLite(t), func(d *container.Deps, _ *testkit.Registry) {
		var limits ratelimit.ByClient
		for text, into := range map[string]*ratelimit.Limit{user: &limits.User, anonymous: &limits.Anonymous} {
			if err := into.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		d.Platform = people{}
		d.Keychain = caller.NewKeychain(nil, people{})
		d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
		d.Limiter.SetLimits(ratelimit.Limits{ratelimit.Requests: limits})
	})
}

// request requests the service's image from an address, with an optional access token.
func (r *harness) request(t *testing.T, ip, token string, layers ...*containerv1.Layer) error {
	t.Helper()
	ctx := rpc.WithCall(context.WithoutCancel(t.Context()), rpc.Call{ClientIP: netip.MustParseAddr(ip)})
	req := &containerv1.ContainerRequest{ContainerImage: r.image, PlatformAccessToken: token}
	if layers != nil {
		req.ContainerConfig = &containerv1.ContainerConfig{Layers: layers}
	}
	_, err := r.SubmitContainer(ctx, &containerv1.SubmitContainerRequest{Request: req})
	return err
}

// TestAttackManyRequests checks that a caller above the limit is rejected with the time to
// retry, and that others are not affected.
func TestAttackManyRequests(t *testing.T) {
	t.Parallel()
	const mine, near, far = "2001:db8::1", "2001:db8::2", "192.0.2.1"
	for _, tc := range []struct {
		name, user, anonymous, token string
		window                       time.Duration
		texts                        []string
	}{
		{"an address", "0", "3/1h", "", time.Hour, []string{"Too many requests: the limit is 3 in 1h; try again in ", "with an access token the limit is higher"}},
		{"a user", "3/1m", "0", "ada", time.Minute, []string{"Too many requests: the limit is 3 in 1m; try again in "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := counted(t, tc.user, tc.anonymous)
			for range 3 {
				if err := r.request(t, mine, tc.token); err != nil {
					t.Fatal(err)
				}
			}
			err := r.request(t, near, tc.token) // the same user, or the same /64
			e, ok := fault.As(err)
			if !ok || !errors.Is(err, fault.Exhausted) || e.RetryAfter <= 0 || e.RetryAfter > tc.window {
				t.Fatalf("a fourth request is answered %v", err)
			}
			for _, text := range tc.texts {
				if !strings.Contains(e.Public, text) {
					t.Errorf("%q does not say %q", e.Public, text)
				}
			}
			if tc.token != "" && strings.Contains(e.Public, "with an access token") {
				t.Errorf("a caller with an access token got %q", e.Public)
			}
			for who, err := range map[string]error{"another address": r.request(t, far, ""), "another user": r.request(t, mine, "bob")} {
				if err != nil {
					t.Errorf("%s is answered %v", who, err)
				}
			}
		})
	}
}

// TestNoLimitOnRequests checks that 0 disables both limits.
func TestNoLimitOnRequests(t *testing.T) {
	t.Parallel()
	r := counted(t, "0", "0")
	for range 20 {
		for _, token := range []string{"", "ada"} {
			if err := r.request(t, "192.0.2.1", token); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAttackLayersFillTheDatabase checks that requests whose layers exceed the space are
// rejected with advice, and that requests without new content still succeed.
func TestAttackLayersFillTheDatabase(t *testing.T) {
	t.Parallel()
	r := newHarnessWith(t, testkit.SQLite(t), func(d *container.Deps, _ *testkit.Registry) { d.LayerStore = 10_000 })
	const ip = "192.0.2.1"
	first, _ := dataLayer(t, strings.Repeat("first", 1000))
	second, _ := dataLayer(t, strings.Repeat("second", 1000))
	if err := r.request(t, ip, "", first); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		l, _ := dataLayer(t, textOf(i))
		err = r.request(t, ip, "", l)
	}
	e, ok := fault.As(err)
	if !ok || !errors.Is(err, fault.Unavailable) || e.RetryAfter <= 0 || !strings.Contains(e.Public, "space for layers and build contexts is used up") || !strings.Contains(e.Public, "http(s) URL") {
		t.Fatalf("beyond the space a layer is answered %v", err)
	}
	if err := r.request(t, ip, "", second); !errors.Is(err, fault.Unavailable) {
		t.Errorf("another layer is answered %v", err)
	}
	if err := r.request(t, ip, "", first); err != nil {
		t.Errorf("for an existing layer: %v", err)
	}
	if err := r.request(t, ip, ""); err != nil {
		t.Errorf("a request without layers is answered %v", err)
	}
}

// textOf returns a different string for each number.
func textOf(i int) string { return strings.Repeat(string(rune('a'+i%26)), 100+i) }
