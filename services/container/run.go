package container

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// renewEvery is how often names are looked through that live as long as a run:
// often enough that none ends between two looks (see due).
func (s *Service) renewEvery() time.Duration {
	return max(time.Second, min(10*time.Minute, s.deps.TokenTTL/8))
}

// renew gives another life to names whose run goes on. A name is renewed in the
// second half of its life; once its run has ended it lives out the one it has
// (gateway/contract/container-service.md#token-life). Replicas may do it at once.
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

// renewOne asks the platform once for each run.
func (s *Service) renewOne(ctx context.Context, rec store.Record, live map[string]bool) error {
	who, run := rec.Plan.GetIdentity(), rec.Request.GetWorkflowId()
	key := caller.Of(who).String() + " " + run
	goesOn, known := live[key]
	if !known {
		resp, err := s.deps.Platform.GetRunState(ctx, &platformv1.GetRunStateRequest{Identity: who, WorkflowId: run})
		if err != nil {
			return err
		}
		goesOn, live[key] = resp.GetLive(), resp.GetLive()
	}
	if !goesOn {
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

// use looks at an image that was built here: the image store keeps what was used
// within the life of a name.
func (s *Service) use(ctx context.Context, rec store.Record) error {
	src := rec.Plan.GetSource()
	if rec.Plan.GetBuildId() == "" || !s.deps.owns(src.GetRegistry(), src.GetRepository()) {
		return nil
	}
	access, err := s.deps.Keychain.Target(ctx, caller.Of(rec.Plan.GetIdentity()), src.GetRegistry(), src.GetRepository())
	if err == nil {
		_, err = s.deps.Upstream.Resolve(ctx, upstream.Repository{Host: src.GetRegistry(), Name: src.GetRepository()}, src.GetReference(), access)
	}
	if errors.Is(err, fault.NotFound) {
		return nil // its build goes on, or has failed
	}
	return err
}

// prolong moves the end of a name, in SQL and then in Redis.
func (s *Service) prolong(ctx context.Context, rec store.Record, until *timestamppb.Timestamp) error {
	was := rec.Expires
	rec.Plan.Expiration, rec.Expires = until, until.AsTime()
	done, err := s.store.Prolong(ctx, rec, was)
	if err != nil || !done {
		return err // not done: it was revoked, or another replica did it
	}
	return s.tokens.Put(ctx, rec.Key, rec.Plan)
}

// Run does what is due from time to time, until ctx ends: it repeats revocations
// that did not get through, renews names whose run goes on, and removes what
// nobody needs any more.
func (s *Service) Run(ctx context.Context) error {
	resend := time.NewTicker(15 * time.Second)
	defer resend.Stop()
	sweep := time.NewTicker(10 * time.Minute)
	defer sweep.Stop()
	renew := time.NewTicker(s.renewEvery())
	defer renew.Stop()
	s.hashTokens(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			s.renew(ctx)
		case <-resend.C:
			s.resendRevocations(ctx)
		case <-sweep.C:
			s.sweep(ctx)
		}
	}
}

func (s *Service) sweep(ctx context.Context) {
	now := s.deps.Now()
	s.hashTokens(ctx)
	if err := s.store.DeleteLayers(ctx, now); err != nil {
		s.deps.Log.WarnContext(ctx, "Expired layers were not removed", "err", err)
	}
	if err := s.store.DeleteLocks(ctx, now.Add(-s.deps.CondaLockTTL)); err != nil {
		s.deps.Log.WarnContext(ctx, "Old locks were not forgotten", "err", err)
	}
	if s.deps.Retention == 0 {
		return
	}
	if err := s.store.DeleteRequests(ctx, now.Add(-s.deps.Retention)); err != nil {
		s.deps.Log.WarnContext(ctx, "Old requests were not removed", "err", err)
	}
}

// hashTokens puts requests that are kept under their token under its key instead:
// those of a release that kept tokens, which may go on while this one starts.
func (s *Service) hashTokens(ctx context.Context) {
	for {
		n, err := s.store.HashSome(ctx)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "Tokens in the database were not hashed; it is tried again", "err", err)
		}
		if err != nil || n == 0 {
			return
		}
	}
}
