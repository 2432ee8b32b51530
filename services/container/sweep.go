package container

import (
	"context"
	"time"

	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/retry"
)

const (
	// firstSweep is how long after the start expired data is deleted for the first time. The
	// platform may be starting, too.
	firstSweep = 5 * time.Second
	sweepEvery = 10 * time.Minute
	// sweepRetry is the time after a sweep that was incomplete.
	sweepRetry = time.Minute
	// batchPause is the pause between two transactions that delete requests, so that new requests
	// are stored meanwhile.
	batchPause = 20 * time.Millisecond
	day        = 24 * time.Hour
	// unusedSignatures is how much longer than the record of its image a signature is stored. That of
	// a longer record is made again, so that its referrer has another digest.
	unusedSignatures = 30 * day
)

// sweepPeriodically deletes expired data until ctx ends.
func (s *Service) sweepPeriodically(ctx context.Context) {
	for pause := firstSweep; retry.Sleep(ctx, pause); {
		pause = sweepEvery
		if !s.sweep(ctx) {
			pause = sweepRetry
		}
	}
}

// sweep deletes expired data. It returns false if something could not be deleted, which it has
// logged. Replicas may call it concurrently.
func (s *Service) sweep(ctx context.Context) bool {
	now := s.deps.Now()
	isComplete := true
	failed := func(message string, err error, attributes ...any) {
		if err == nil || ctx.Err() != nil {
			return
		}
		isComplete = false
		s.deps.Log.WarnContext(ctx, message, append(attributes, "err", err)...) //nolint:sloglint // constant messages, below
	}
	failed("Expired layers were not deleted", s.store.DeleteLayers(ctx, now))
	failed("Old locks were not deleted", s.store.DeleteLocks(ctx, s.oldestLock(now)))
	failed("Packages of deleted requests were not deleted", s.deleteBatches(ctx, func() (bool, error) { return s.store.DeletePackages(ctx, now.Add(-unusedPackages)) }))
	failed("The catalog was not cleaned", s.sweepKept(ctx, now))
	failed("Old scans were not deleted", s.store.DeleteScans(ctx, now.Add(-time.Hour)))
	if s.deps.Retention > 0 {
		failed("Old signatures were not deleted", s.store.DeleteSignatures(ctx, now.Add(-s.deps.TokenTTL-s.deps.Retention-unusedSignatures)))
		before := now.Add(-s.deps.Retention)
		failed("Old requests were not deleted", s.deleteBatches(ctx, func() (bool, error) { return s.store.DeleteRequests(ctx, before) }))
	}
	own, err := caller.ReadLimits(ctx, s.deps.Platform, s.deps.Log)
	failed("The limits of organisations cannot be read; requests of organisations with the limit requestDays are deleted later", err)
	for subject, retention := range s.shorterRetentions(own) {
		of, before := store.Organization{Endpoint: own.Endpoint, ID: subject.ID}, now.Add(-retention)
		err := s.deleteBatches(ctx, func() (bool, error) { return s.store.DeleteRequestsOf(ctx, of, before) })
		failed("Old requests of an organisation were not deleted", err, "organization", of.ID)
	}
	return isComplete
}

// shorterRetentions returns how long the requests of organisations are stored after their names
// expired, if that is shorter than the setting. The limits must be current, and not those that the
// Limiter may have cached from before an outage of the platform: deleted requests cannot be restored.
func (s *Service) shorterRetentions(own ratelimit.Own) map[ratelimit.Subject]time.Duration {
	out := map[ratelimit.Subject]time.Duration{}
	for subject, days := range own.Days {
		retention := time.Duration(days) * day
		if subject.Of == ratelimit.Organization && days > 0 && (s.deps.Retention == 0 || retention < s.deps.Retention) {
			out[subject] = retention
		}
	}
	return out
}

// deleteBatches calls f, which deletes some requests, until there are no more.
func (s *Service) deleteBatches(ctx context.Context, f func() (more bool, err error)) error {
	for {
		more, err := f()
		if err != nil || !more || !retry.Sleep(ctx, batchPause) {
			return err
		}
	}
}
