package builder

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/buildlog"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/retry"
)

// deliver handles one delivery of a job, from the message to its acknowledgement.
func (w *Worker) deliver(ctx context.Context, q queue, msg jetstream.Msg) {
	job, ok := w.readJob(msg)
	if !ok {
		return
	}
	ctx, span := bus.Receive(ctx, msg)
	defer span.End()
	defer w.heartbeat(msg)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	proofs := make(chan string, 8)
	sub, err := w.NATS.Subscribe(buildbus.Cancel(job.ID), func(m *nats.Msg) {
		select {
		case proofs <- string(m.Data):
		case <-ctx.Done():
		}
	})
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
	}
	// The subscription to the cancel subject must exist before the build service responds.
	until, err := w.takeJob(ctx, &job)
	go cancelled(ctx, job.Ticket, proofs, cancel)
	switch {
	case errors.Is(err, fault.NotFound):
		w.ack(msg)
	case err != nil && ctx.Err() != nil:
		w.handBack(msg, job, err)
	case err != nil:
		w.logger(job).Error("the build service refused to describe the build", "err", err)
		_ = msg.NakWithDelay(busTimeout) // after as many of these as buildbus.JobConsumer permits, the build ends
	default:
		w.work(ctx, q, msg, job, until)
	}
}

// cancelled cancels the build when it receives the ticket's hash. Only the build service
// knows it; other clients that can write to the bus do not.
func cancelled(ctx context.Context, ticket string, proofs <-chan string, cancel context.CancelCauseFunc) {
	sum := sha256.Sum256([]byte(ticket))
	for {
		select {
		case <-ctx.Done():
			return
		case proof := <-proofs:
			if ticket != "" && subtle.ConstantTimeCompare([]byte(proof), []byte(hex.EncodeToString(sum[:]))) == 1 {
				cancel(errCancelled)
				return
			}
		}
	}
}

// readJob parses a job's message. A malformed message is dropped.
func (w *Worker) readJob(msg jetstream.Msg) (job jobs.Job, ok bool) {
	var m buildv1.Job
	meta, err := msg.Metadata()
	if err != nil || proto.Unmarshal(msg.Data(), &m) != nil || m.GetBuildId() == "" {
		w.Log.Error("A malformed job was dropped", "subject", msg.Subject())
		_ = msg.Term()
		return jobs.Job{}, false
	}
	return jobs.Job{ID: m.GetBuildId(), Delivery: int32(meta.NumDelivered), Sequence: meta.Sequence.Stream}, true
}

// heartbeat tells JetStream that the job is in progress, until stop is called.
func (w *Worker) heartbeat(msg jetstream.Msg) (stop func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(w.timeouts.heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = msg.InProgress()
			}
		}
	}()
	return func() { close(done) }
}

// takeJob requests a job's description and returns the build's deadline. It retries while
// the build service is unavailable, and returns fault.NotFound if the build has ended.
func (w *Worker) takeJob(ctx context.Context, job *jobs.Job) (time.Time, error) {
	if err := withBusTimeout(ctx, w.NATS.FlushWithContext); err != nil {
		w.logger(*job).Debug("flushing the cancel subscription", "err", err)
	}
	for {
		var r *buildv1.TakeJobResponse
		err := withBusTimeout(ctx, func(ctx context.Context) (err error) {
			r, err = w.Work.TakeJob(ctx, &buildv1.TakeJobRequest{BuildId: job.ID, Delivery: job.Delivery, Worker: w.Settings.Name})
			return err
		})
		if err == nil {
			job.Recipe, job.Target, job.ContentDigest = r.GetRecipe(), r.GetTarget(), r.GetContentDigest()
			job.CacheScope, job.Ticket, job.Forbidden = r.GetCacheScope(), r.GetTicket(), r.GetForbidden()
			job.CacheDigest, job.Lock, job.PrivateChannels = r.GetCacheDigest(), r.GetLock(), r.GetPrivateChannels()
			job.Allowed, job.Rules = r.GetGivenImages(), r.GetRules()
			return deadline(r, w.Now()), nil
		}
		if !jobs.IsUnavailable(err) || ctx.Err() != nil {
			return time.Time{}, err
		}
		w.logger(*job).Warn("the build service could not describe the build; trying again", "err", err)
		retry.Sleep(ctx, w.timeouts.retry)
	}
}

// defaultLimit is the time limit of builds that have no limit of their own.
const defaultLimit = time.Hour

func deadline(r *buildv1.TakeJobResponse, now time.Time) time.Time {
	if r.GetDeadline() == nil {
		return now.Add(defaultLimit)
	}
	return r.GetDeadline().AsTime()
}

// work runs the engine and reports the result.
func (w *Worker) work(ctx context.Context, q queue, msg jetstream.Msg, job jobs.Job, until time.Time) {
	engine := w.capabilities()[q]
	if engine == nil { // the engine stopped while the job was delivered
		w.handBack(msg, job, errEngineStopped)
		return
	}
	start, log := w.Now(), w.logger(job)
	log.Info("Worker starts a build", "engine", q.engine, "arch", q.arch)
	ended := w.metrics.started()
	out := buildlog.New(job, w.publish, w.Log)
	bctx, cancel := context.WithDeadlineCause(ctx, until, errOverTime)
	seen := w.metrics.phases(bctx, q.engine, out)
	var cache string
	var keys []string
	var inputs *buildv1.Inputs
	var environment string
	job.Exported = func(digest string) { cache = digest }
	job.Inputs = func(in *buildv1.Inputs) { inputs = in }
	job.Environment = func(digest string) { environment = digest }
	job.UsedKeys = func(ids []string) { // called more than once if a layer was lost
		keys = slices.Compact(slices.Sorted(slices.Values(append(keys, ids...))))
	}
	digest, err := w.build(bctx, engine, job, seen)
	seen.end()
	drained := err != nil && errors.Is(context.Cause(bctx), errDrained)
	result := &buildv1.Result{BuildId: job.ID, Delivery: job.Delivery, Ticket: job.Ticket, Succeeded: err == nil, Digest: digest, CacheDigest: cache, LayerKeys: keys}
	if err == nil {
		result.Inputs, result.Environment = inputs, environment
	} else {
		f := failureOf(bctx, err)
		result.Reason, result.Message, result.LockOutdated = string(f.Reason), f.Message, f.Outdated
		needs := new(jobs.StepsNeeded)
		if result.NeedsSteps = bctx.Err() == nil && errors.As(err, &needs); result.NeedsSteps {
			result.Digest, result.Steps = needs.Digest, needs.Steps
		}
	}
	cancel()
	reason := result.GetReason()
	if result.GetNeedsSteps() { // the engine has completed its part
		reason = ""
	}
	ended(q.engine, reason, w.Now().Sub(start))
	if drained {
		_ = withBusTimeout(context.WithoutCancel(ctx), func(ctx context.Context) error { out.End(ctx); return nil })
		w.handBack(msg, job, errDrained)
		return
	}
	if err != nil && !result.GetNeedsSteps() && !result.GetLockOutdated() { // with steps or with a new lock the build may continue
		first, _, _ := strings.Cut(result.GetMessage(), "\n")
		out.Print("", fmt.Sprintf("The build failed (%s): %s", result.GetReason(), strings.TrimSuffix(first, ":")))
	}
	log.Info("Worker ended a build", "reason", result.GetReason(), "digest", digest, "ms", w.Now().Sub(start).Milliseconds(), "err", err)
	w.report(ctx, msg, job, out, result)
}

// build runs the engine and converts a panic into an error.
func (w *Worker) build(ctx context.Context, e Engine, job jobs.Job, out jobs.Output) (digest string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return e.Build(ctx, job, out)
}
