package container

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// renewEvery returns the interval for renewing the names of runs. It is short enough that no
// name expires between two checks (see renew).
func (s *Service) renewEvery() time.Duration {
	return max(time.Second, min(10*time.Minute, s.deps.TokenTTL/8))
}

// renew extends the names of active runs. A name is renewed in the second half of its life,
// and expires normally once its run has ended
// (gateway/contract/container-service.md#token-life). Replicas may run it concurrently.
func (s *Service) renew(ctx context.Context) {
	now := s.deps.Now()
	live := map[string]bool{}
	for after := ""; ; {
		batch, err := s.store.Due(ctx, after, now, now.Add(s.deps.TokenTTL/2))
		if err != nil {
			s.deps.Log.WarnContext(ctx, "Names to renew were not read", "err", err)
			return
		}
		if len(batch) == 0 {
			return
		}
		for _, rec := range batch {
			after = rec.Key
			if err := s.renewOne(ctx, rec, live); err != nil {
				s.deps.Log.WarnContext(ctx, "A name was not renewed; it is tried again", "err", err)
			}
		}
	}
}

// renewOne renews one name. It queries the platform once for each run, using live as a
// cache.
func (s *Service) renewOne(ctx context.Context, rec store.Record, live map[string]bool) error {
	who, run := rec.Plan.GetIdentity(), rec.Request.GetWorkflowId()
	key := caller.Of(who).String() + " " + run
	isLive, known := live[key]
	if !known {
		resp, err := s.deps.Platform.GetRunState(ctx, &platformv1.GetRunStateRequest{Identity: who, WorkflowId: run})
		if err != nil {
			return err
		}
		isLive, live[key] = resp.GetLive(), resp.GetLive()
	}
	if !isLive {
		return nil
	}
	until := s.expiration()
	for _, l := range rec.Plan.GetConfig().GetLayers() {
		if _, err := s.store.ExtendLayer(ctx, l.GetGzipDigest(), until.AsTime()); err != nil {
			return err
		}
	}
	if err := s.use(ctx, rec); err != nil {
		return err
	}
	return s.prolong(ctx, rec, until)
}

// use marks a built image as used, so that the image store keeps it for the life of its
// name.
func (s *Service) use(ctx context.Context, rec store.Record) error {
	src := rec.Plan.GetSource()
	if rec.Plan.GetBuildId() == "" || !s.deps.owns(src.GetRegistry(), src.GetRepository()) {
		return nil
	}
	_, err := s.builtDigest(ctx, rec.Plan)
	if errors.Is(err, fault.NotFound) {
		return nil // its build is running, or has failed
	}
	return err
}

// prolong extends the life of a name, in SQL and then in Redis.
func (s *Service) prolong(ctx context.Context, rec store.Record, until *timestamppb.Timestamp) error {
	was := rec.Expires
	rec.Plan.Expiration, rec.Expires = until, until.AsTime()
	done, err := s.store.Prolong(ctx, rec, was)
	if err != nil || !done {
		return err // unchanged: it was revoked, or another replica renewed it
	}
	return s.tokens.Put(ctx, rec.Key, rec.Plan)
}

// Run performs periodic work until ctx ends: it repeats failed publications of revocations,
// renews the names of active runs, deletes expired data, for ended builds announces containers
// and signs images, and starts scans.
func (s *Service) Run(ctx context.Context) error {
	resend := time.NewTicker(15 * time.Second)
	defer resend.Stop()
	renew := time.NewTicker(s.renewEvery())
	defer renew.Stop()
	var others sync.WaitGroup
	if s.events != nil {
		others.Go(func() { s.announce(ctx) })
		others.Go(func() { s.attach(ctx) })
	}
	others.Go(func() { s.sweepPeriodically(ctx) })
	others.Go(func() { s.indexPeriodically(ctx) })
	if s.deps.Inspect != nil {
		others.Go(func() { s.linkDue(ctx) })
		others.Go(func() { s.repeatScans(ctx) })
	}
	defer others.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			s.renew(ctx)
		case <-resend.C:
			s.resendRevocations(ctx)
		}
	}
}
