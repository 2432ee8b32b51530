package builder

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/retry"
)

// A Rebuilder is an Engine whose images have the same bytes wherever they are built.
type Rebuilder interface {
	Engine
	// Rebuild builds the image of a job again, and pushes nothing. It uses no results of earlier builds.
	Rebuild(ctx context.Context, job jobs.Job, out jobs.Output) (jobs.Rebuilt, error)
}

// Causes of the context of a rebuild that was cancelled.
var (
	errYield = errors.New("builds of users wait")
	errLease = errors.New("the build service no longer expects the result")
)

// rebuilds requests rebuilds while the worker has no builds, one at a time, until ctx ends. Builds
// that arrive meanwhile have their own slots and do not wait for a rebuild.
func (w *Worker) rebuilds(ctx context.Context) {
	pause := limits.RebuildInterval
	for retry.Sleep(ctx, pause) {
		pause = limits.RebuildInterval
		engine := w.rebuilder()
		if engine == nil || w.metrics.count() > 0 || w.DiskFull != nil && w.DiskFull() != nil {
			continue
		}
		r, err := w.takeRebuild(ctx)
		switch {
		case errors.Is(err, fault.Unsupported): // a build service of an earlier release
			pause = limits.RebuildIntervalOff
		case err != nil:
			if ctx.Err() == nil {
				w.Log.Debug("The build service returned no rebuild", "err", err)
			}
		case r.GetBuildId() == "":
			pause = max(r.GetRetryAfter().AsDuration(), time.Second)
		default:
			w.rebuild(ctx, engine, r)
			pause = time.Second
		}
	}
}

// takeRebuild requests a rebuild.
func (w *Worker) takeRebuild(ctx context.Context) (r *buildv1.TakeRebuildResponse, err error) {
	err = withBusTimeout(ctx, func(ctx context.Context) error {
		r, err = w.Work.TakeRebuild(ctx, &buildv1.TakeRebuildRequest{Worker: w.Settings.Name})
		return err
	})
	return r, err
}

// rebuilder returns the engine whose images can be built again; nil if it cannot work now.
func (w *Worker) rebuilder() Rebuilder {
	for _, e := range w.Engines {
		if r, ok := e.(Rebuilder); ok && len(e.Architectures()) > 0 {
			return r
		}
	}
	return nil
}

// rebuild builds an image again and reports the result.
func (w *Worker) rebuild(ctx context.Context, engine Rebuilder, r *buildv1.TakeRebuildResponse) {
	log, start := w.Log.With("build_id", r.GetBuildId()), w.Now()
	log.InfoContext(ctx, "Worker builds an image again")
	job := jobs.Job{
		ID: r.GetBuildId(), Delivery: 1, Recipe: r.GetRecipe(), Ticket: r.GetTicket(), Lock: r.GetLock(), PrivateChannels: r.GetPrivateChannels(), CacheScope: "rebuild",
	}
	until := w.Now().Add(defaultLimit)
	if d := r.GetDeadline(); d != nil {
		until = d.AsTime()
	}
	bctx, cancel := context.WithDeadlineCause(ctx, until, errOverTime)
	bctx, stop := context.WithCancelCause(bctx)
	go w.renew(bctx, r.GetTicket(), stop)
	made, err := runRebuild(bctx, engine, job)
	report := rebuildReport(bctx, made, err)
	isLost := errors.Is(context.Cause(bctx), errLease)
	stop(nil)
	cancel()
	log.InfoContext(ctx, "Worker ended a rebuild", "outcome", report.GetOutcome().String(), "ms", w.Now().Sub(start).Milliseconds(), "err", err)
	if isLost {
		return
	}
	report.Ticket = r.GetTicket()
	if err := w.reportRebuild(ctx, report); err != nil {
		log.WarnContext(ctx, "The result of a rebuild was not reported", "err", err)
	}
}

// runRebuild runs the engine and converts a panic into an error.
func runRebuild(ctx context.Context, e Rebuilder, job jobs.Job) (made jobs.Rebuilt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return e.Rebuild(ctx, job, noOutput{})
}

// noOutput discards the output of a rebuild, which has no log.
type noOutput struct{}

// Print implements jobs.Output.
func (noOutput) Print(string, string) {}

// renew renews the lease of a rebuild until ctx ends. It stops the rebuild if the build service
// requests that, or no longer expects the result.
func (w *Worker) renew(ctx context.Context, ticket string, stop context.CancelCauseFunc) {
	for retry.Sleep(ctx, limits.RebuildRenewal) {
		var r *buildv1.RenewRebuildResponse
		err := withBusTimeout(ctx, func(ctx context.Context) (err error) {
			r, err = w.Work.RenewRebuild(ctx, &buildv1.RenewRebuildRequest{Ticket: ticket})
			return err
		})
		switch {
		case errors.Is(err, fault.NotFound):
			stop(errLease)
			return
		case err == nil && r.GetStop():
			stop(errYield)
			return
		}
	}
}

// rebuildReport returns the report of a rebuild that ended with an image or an error.
func rebuildReport(ctx context.Context, made jobs.Rebuilt, err error) *buildv1.ReportRebuildRequest {
	if err == nil {
		return &buildv1.ReportRebuildRequest{Outcome: buildv1.RebuildOutcome_REBUILD_OUTCOME_BUILT, Manifest: made.Manifest, Config: made.Config}
	}
	f := failureOf(ctx, err)
	out := &buildv1.ReportRebuildRequest{Outcome: buildv1.RebuildOutcome_REBUILD_OUTCOME_FAILED, Message: fault.Clip(f.Message, limits.RebuildMessage)}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errOverTime):
	case cause != nil: // the worker stops, or users' builds wait
		out.Outcome, out.Message = buildv1.RebuildOutcome_REBUILD_OUTCOME_RETURNED, ""
	case f.Outdated, errors.Is(err, fault.NotFound), errors.Is(err, fault.Denied), errors.Is(err, fault.Unauthenticated):
		out.Outcome = buildv1.RebuildOutcome_REBUILD_OUTCOME_UNAVAILABLE
	}
	return out
}

// reportRebuild reports a result, also while the worker stops. It retries while the build service is
// unavailable, until the lease has certainly ended.
func (w *Worker) reportRebuild(ctx context.Context, report *buildv1.ReportRebuildRequest) error {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.RebuildLease)
	defer cancel()
	if ctx.Err() != nil {
		out, cancel = context.WithTimeout(out, busTimeout)
		defer cancel()
	}
	for {
		_, err := w.Work.ReportRebuild(out, report)
		if err == nil || !jobs.IsUnavailable(err) || !retry.Sleep(out, w.timeouts.retry) {
			return err
		}
	}
}
