package build

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

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

// TestChargeOfMinutes checks that builds are charged the minutes that they have begun, the first of them
// in advance, and that builds are rejected when the minutes are used up, but not those of other
// organisations.
func TestChargeOfMinutes(t *testing.T) {
	t.Parallel()
	s := &Service{}
	s.deps.Limiter, s.deps.Log = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)), testkit.Log(t)
	setLimit := func(value string) {
		t.Helper()
		limits := ratelimit.Own{Endpoint: "https://p"}
		for _, k := range []ratelimit.Kind{ratelimit.BuildMinutes, ratelimit.Builds} {
			if err := limits.Add(ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, k, value); err != nil {
				t.Fatal(err)
			}
		}
		s.deps.Limiter.SetOwn(limits)
	}
	build := func(org int64) *store.Record {
		return &store.Record{TimeLimit: 20 * time.Minute, Request: &buildv1.SubmitBuildRequest{Identity: &platformv1.Identity{Endpoint: "https://p", UserId: 7, WorkspaceId: org + 10, OrganizationId: org}}}
	}
	left := func(k ratelimit.Kind, want int) {
		t.Helper()
		got, known := s.deps.Limiter.Remaining(t.Context(), "https://p", ratelimit.Subject{Of: ratelimit.Organization, ID: 3}, k, ratelimit.Limit{{Count: 40, Window: 24 * time.Hour}})
		if !known || got != want {
			t.Errorf("%d %s are left (%t), want %d", got, k, known, want)
		}
	}
	setLimit("40/24h")
	for _, c := range []struct {
		took time.Duration
		left int
	}{
		{-time.Hour, 39}, // the clocks of two replicas differ
		{0, 38},
		{time.Minute, 37},
		{time.Minute + time.Second, 35},
		{8 * time.Minute, 27},
		{10 * time.Hour, 7}, // the result was read late
	} {
		if _, err := s.charge(t.Context(), build(3)); err != nil {
			t.Fatal(err)
		}
		now, b := time.Now(), *build(3)
		b.Started = now.Add(-c.took)
		s.chargeMinutes(t.Context(), b, minutesOf(b, now)-1)
		left(ratelimit.BuildMinutes, c.left)
	}
	refund, err := s.charge(t.Context(), build(3))
	if err != nil {
		t.Fatal(err)
	}
	left(ratelimit.BuildMinutes, 6)
	refund()
	left(ratelimit.BuildMinutes, 7)
	left(ratelimit.Builds, 34)
	for range 7 { // builds that wait are limited, too
		if _, err := s.charge(t.Context(), build(3)); err != nil {
			t.Fatal(err)
		}
	}
	left(ratelimit.Builds, 27)
	_, err = s.charge(t.Context(), build(3))
	if e, _ := fault.As(err); e == nil || e.Kind != fault.Exhausted || e.Code != "limit.buildMinutes" || e.RetryAfter <= 0 {
		t.Errorf("with nothing left: %v", err)
	}
	left(ratelimit.Builds, 27) // a rejected build counts against no limit
	s.chargeMinutes(t.Context(), *build(3), 20)
	left(ratelimit.BuildMinutes, 0)
	if _, err := s.charge(t.Context(), build(4)); err != nil {
		t.Errorf("another organisation: %v", err)
	}
	s.chargeMinutes(t.Context(), store.Record{Request: &buildv1.SubmitBuildRequest{}, TimeLimit: time.Hour}, 60) // anonymous
	setLimit("0")
	s.chargeMinutes(t.Context(), *build(3), 60)
	if _, err := s.charge(t.Context(), build(3)); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
