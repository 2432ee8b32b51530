package build

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// TestChargeOfTheOwnMachine checks which builds from this machine and from others are charged.
func TestChargeOfTheOwnMachine(t *testing.T) {
	t.Parallel()
	s := &Service{}
	s.deps.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	s.deps.Limiter.SetLimits(ratelimit.Limits{ratelimit.Builds: {Anonymous: ratelimit.Limit{{Count: 1, Window: time.Hour}}}})
	start := func(ip string) error {
		ctx := rpc.WithCall(context.Background(), rpc.Call{ClientIP: netip.MustParseAddr(ip)})
		req := &buildv1.SubmitBuildRequest{}
		_, err := s.charge(ctx, &store.Record{Request: req, Owner: owner(ctx, req)})
		return err
	}
	for _, free := range []bool{true, false} {
		s.deps.OwnMachineFree = func() bool { return free }
		for _, ip := range []string{"127.0.0.1", "::1"} {
			if err := errors.Join(start(ip), start(ip)); errors.Is(err, fault.Exhausted) == free {
				t.Errorf("%s, free %v: %v", ip, free, err)
			}
		}
	}
	s.deps.OwnMachineFree = func() bool { return true }
	if err := errors.Join(start("192.0.2.1"), start("192.0.2.1")); !errors.Is(err, fault.Exhausted) {
		t.Errorf("another machine: %v", err)
	}
}
