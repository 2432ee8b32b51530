package container

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

const (
	// lookForScans is how often a worker looks for scans that another process started, or left.
	lookForScans = 3 * time.Second
	// scanRetryPause is the pause before the second try of a scan; each further one is twice as long.
	scanRetryPause = 2 * time.Second
	scanRetried    = "retry"
)

// ScanImages scans images until ctx ends. Replicas share the work through claims: another one scans what this
// one had claimed.
func (s *Service) ScanImages(ctx context.Context) error {
	if s.deps.Inspect == nil {
		<-ctx.Done()
		return nil
	}
	var workers sync.WaitGroup
	for range limits.ScansAtOnce {
		workers.Go(func() {
			for ctx.Err() == nil {
				if s.scanNext(ctx) {
					continue
				}
				select {
				case <-ctx.Done():
				case <-s.scanner.woken:
				case <-time.After(lookForScans/2 + rand.N(lookForScans)): //nolint:gosec // it spreads queries
				}
			}
		})
	}
	workers.Wait()
	return nil
}

// scanNext runs one scan, and reports whether there was one.
func (s *Service) scanNext(ctx context.Context) bool {
	now := s.deps.Now()
	f, ok, err := s.store.ClaimFindings(ctx, now, now.Add(limits.ScanLease))
	if err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "Pending scans cannot be read", "err", err)
	}
	if !ok {
		return false
	}
	if err := s.scan(ctx, f); err != nil && ctx.Err() == nil {
		s.deps.Log.WarnContext(ctx, "The result of a scan was not stored; it is scanned again", "digest", f.Digest, "err", err)
	}
	return true
}

// scan runs a claimed scan and stores its result.
func (s *Service) scan(ctx context.Context, f store.Findings) error {
	rec, err := s.requestOf(ctx, f)
	if errors.Is(err, fault.NotFound) {
		return s.store.DropFindings(ctx, f)
	}
	if err != nil {
		return err
	}
	begun := time.Now()
	f.Result, err = s.findings(ctx, f, rec)
	ended := context.WithoutCancel(ctx)
	switch {
	case ctx.Err() != nil: // another replica scans it at once
		_, err = s.store.PostponeFindings(ended, f, s.deps.Now())
		return err
	case errors.Is(err, errClaimLost):
		return nil
	case err != nil && f.Claims < limits.ScanTries && !isFinal(err):
		s.scanner.results.WithLabelValues(scanRetried).Inc()
		s.deps.Log.InfoContext(ctx, "An image could not be scanned; it is tried again", "digest", f.Digest, "err", err)
		_, err = s.store.PostponeFindings(ctx, f, s.deps.Now().Add(retryPause(f.Claims, err)))
		return err
	case err != nil:
		f.Result = &containerv1.ScanResult{Problem: scanProblem(err), Database: f.Version}
		s.deps.Log.InfoContext(ctx, "An image could not be scanned", "digest", f.Digest, "err", err)
	}
	s.scanner.seconds.Observe(time.Since(begun).Seconds())
	before, err := s.store.FindingsOf(ctx, f.Content)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	held, err := s.store.EndFindings(ctx, f, s.deps.Now())
	if err == nil && held {
		if err := s.announceScan(ctx, before, f); err != nil { // it is not needed to serve the image
			s.deps.Log.WarnContext(ctx, "A scan was not announced to webhooks", "digest", f.Digest, "err", err)
		}
		result := store.ScanDone
		if f.Result.GetProblem() != "" {
			result = store.ScanFailed
		}
		s.scanner.results.WithLabelValues(result).Inc()
	}
	return err
}

// requestOf returns a valid request for the image of a scan.
func (s *Service) requestOf(ctx context.Context, f store.Findings) (store.Record, error) {
	rec, err := s.store.Get(ctx, f.Request)
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if !errors.Is(err, fault.NotFound) {
		return rec, err
	}
	others, other := s.store.ScannedBy(ctx, f.Content, s.deps.Now(), 1)
	if other != nil || len(others) == 0 {
		return rec, errors.Join(other, err)
	}
	return others[0], nil
}

var (
	// errClaimLost is returned if another process has claimed the scan.
	errClaimLost = errors.New("another process has claimed the scan")
	// errOldDatabase is returned if a scan has used another database than requested.
	errOldDatabase = fault.Unavailable.Newf("The newest database of vulnerabilities is not loaded everywhere yet")
)

// otherVersions is how often a scan is tried that uses another database than requested. Then its result is used.
const otherVersions = 3

// madeLock reports whether this service has assembled the image of a plan from Conda packages, so that the lock in it
// states its packages. Any other lock was written by the author of the image.
func (s *Service) madeLock(ctx context.Context, plan *containerv1.Plan, root string) bool {
	if plan.GetBuildId() == "" {
		return false
	}
	in, err := s.inputs(ctx, plan.GetBuildId(), digest.Digest(root))
	return err == nil && in.GetEngine() == "conda" // otherwise all layers are read
}

// findings has the inspect service scan an image. Meanwhile it renews the claim.
func (s *Service) findings(ctx context.Context, f store.Findings, rec store.Record) (*containerv1.ScanResult, error) {
	ip, _ := netip.ParseAddr(rec.ClientIP) // a user's request may have none
	ctx = rpc.WithCall(ctx, rpc.Call{ClientIP: ip, Background: true})
	ctx, end := context.WithTimeout(ctx, limits.ScanTime)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { s.renewClaim(ctx, f, cancel) })
	defer renewing.Wait()
	defer cancel(nil)
	got, err := s.deps.Inspect.ScanImage(ctx, &inspectv1.ScanImageRequest{Plan: tokens.Without(rec.Plan), Digest: f.Digest, TrustLock: s.madeLock(ctx, rec.Plan, f.Digest)})
	if errors.Is(context.Cause(ctx), errClaimLost) {
		return nil, errClaimLost
	}
	if err != nil {
		return nil, err
	}
	if got.GetResult().GetDatabase() != f.Version && f.Claims < otherVersions {
		return nil, errOldDatabase
	}
	return got.GetResult(), nil
}

// renewClaim renews a claim until ctx ends. If the claim was lost, it cancels the scan.
func (s *Service) renewClaim(ctx context.Context, f store.Findings, cancel context.CancelCauseFunc) {
	renew := time.NewTicker(limits.ScanLease / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
		}
		held, err := s.store.PostponeFindings(ctx, f, s.deps.Now().Add(limits.ScanLease))
		if err == nil && !held {
			cancel(errClaimLost)
			return
		}
	}
}

// isFinal reports whether another try would fail as well.
func isFinal(err error) bool {
	return errors.Is(err, fault.Invalid) || errors.Is(err, fault.NotFound) || errors.Is(err, fault.Denied) || errors.Is(err, fault.Unauthenticated)
}

func retryPause(claims int64, err error) time.Duration {
	pause := scanRetryPause << min(claims-1, 5)
	if e, ok := fault.As(err); ok {
		pause = max(pause, e.RetryAfter)
	}
	return pause/2 + rand.N(pause) //nolint:gosec // it spreads tries
}

// scanProblem returns why an image cannot be scanned, for users.
func scanProblem(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Public
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "The scan did not finish within " + limits.ScanTime.String()
	}
	return "The scan failed because of an internal error"
}
