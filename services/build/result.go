package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/retry"
)

// Reasons why a build failed (gateway/contract/container-service.md#reasons).
const (
	reasonTimeout   = "timeout"
	reasonCancelled = "cancelled"
	reasonInternal  = "internal"
	reasonPush      = "push"
)

// consumeResults handles the reports of workers until ctx ends, also when NATS is
// temporarily unavailable.
func (s *Service) consumeResults(ctx context.Context) {
	consumer := buildbus.ResultConsumer()
	consumer.Outage = &retry.Outage{Log: s.deps.Log, Fails: "Results of builds cannot be read right now; retrying", Works: "Results of builds are read again"}
	storing := &retry.Outage{Log: s.deps.Log, Fails: "Results of builds cannot be stored right now; retrying", Works: "Results of builds are stored again"}
	retry.Forever(ctx, consumer.Outage, func(ctx context.Context) error {
		if err := bus.CreateStreams(ctx, s.bus, buildbus.Streams()...); err != nil {
			return err
		}
		s.makeClaims(ctx)
		return bus.Consume(ctx, s.bus, consumer, func(ctx context.Context, m jetstream.Msg) { s.consumeResult(ctx, m, storing) })
	})
}

// consumeResult acknowledges a report after it is stored in SQL.
func (s *Service) consumeResult(ctx context.Context, m jetstream.Msg, storing *retry.Outage) {
	r := &buildv1.Result{}
	if err := proto.Unmarshal(m.Data(), r); err != nil {
		s.deps.Log.ErrorContext(ctx, "A result cannot be read", "err", err)
		_ = m.Term() // a retry cannot help
		return
	}
	limited, cancel := context.WithTimeout(ctx, 50*time.Second)
	defer cancel()
	if err := s.reported(limited, r); err != nil && !errors.Is(err, fault.NotFound) {
		storing.Failed(ctx, err, "build_id", r.GetBuildId())
		_ = m.NakWithDelay(2 * time.Second)
		return
	}
	storing.Succeeded(ctx)
	_ = m.Ack()
}

// reported handles a worker's report. The report is only accepted for the build whose
// ticket it has, since otherwise any client of the bus could end any build with any image.
func (s *Service) reported(ctx context.Context, r *buildv1.Result) error {
	rec, err := s.store.Get(ctx, r.GetBuildId())
	if err != nil {
		return err
	}
	if rec.IsPending() {
		holder, err := s.store.ByTicket(ctx, hash(r.GetTicket()))
		if err != nil && !errors.Is(err, fault.NotFound) {
			return err
		}
		if holder.ID != rec.ID {
			s.deps.Log.WarnContext(ctx, "A result was ignored: its ticket is not that of the build's newest delivery",
				"build_id", rec.ID, "delivery", r.GetDelivery())
			return nil
		}
	}
	return s.finish(ctx, r)
}

// finish ends a build: it copies the log to SQL, then stores the result, and then notifies
// waiting calls, even if the result was already known. It may be repeated.
func (s *Service) finish(ctx context.Context, r *buildv1.Result) error {
	rec, err := s.store.Get(ctx, r.GetBuildId())
	if err != nil {
		return err
	}
	if r.GetHandedBack() {
		return s.takeBack(ctx, rec, r)
	}
	if rec.IsPending() {
		if again, err := s.hasRevokedLayers(ctx, rec, r); again || err != nil {
			return err
		}
		if err := s.noteLayers(ctx, r); err != nil {
			return err
		}
	}
	if r.GetLockOutdated() {
		if continues, err := s.solveAgain(ctx, rec, r); continues || err != nil {
			return err
		}
	}
	if r.GetNeedsSteps() {
		if continues, err := s.buildInSteps(ctx, rec, r); continues || err != nil {
			return err
		}
	}
	if rec.IsPending() && (r.GetSucceeded() || rec.Delivery <= int64(r.GetDelivery())) {
		if err := s.logs.Fold(ctx, rec.ID); err != nil {
			return err
		}
		if err := s.complete(ctx, rec, r); err != nil {
			return err
		}
		if err := errors.Join(s.logs.Remove(ctx, rec.ID), s.queue.Remove(ctx, rec)); err != nil {
			s.logDispatchError(ctx, "The messages of a build could not be removed from the bus", err)
		}
	}
	return s.deps.Bus.Publish(buildbus.Done(rec.ID), nil)
}

// hasRevokedLayers reports whether a build used layers of a worker that has been revoked
// meanwhile. It queues such a build again.
func (s *Service) hasRevokedLayers(ctx context.Context, rec store.Record, r *buildv1.Result) (bool, error) {
	revoked, err := s.store.IsRevoked(ctx, layerKeys(r))
	if err != nil || !revoked {
		return false, err
	}
	if err := s.queue.Remove(ctx, rec); err != nil {
		return false, err
	}
	s.deps.Log.WarnContext(ctx, "A build with layers of a revoked worker is queued again", "build_id", rec.ID)
	return true, s.takeBack(ctx, rec, r)
}

// takeBack queues a build again after its worker returned it, for example because the worker
// stops. The delivery does not count.
func (s *Service) takeBack(ctx context.Context, rec store.Record, r *buildv1.Result) error {
	// A report of an older delivery is ignored. A newer delivery than the recorded one is
	// valid: the worker may have stopped before it called TakeJob.
	if !rec.IsPending() || rec.Delivery > int64(r.GetDelivery()) {
		return nil
	}
	if err := s.store.Release(ctx, rec.ID); err != nil {
		return err
	}
	wake(s.queued)
	return nil
}

func (s *Service) complete(ctx context.Context, rec store.Record, r *buildv1.Result) error {
	now := s.deps.Now()
	r.Message, r.Inputs = s.deps.Keychain.Publish(r.GetMessage()), acceptedInputs(r)
	if !r.GetSucceeded() || !store.HasEnvironment(rec.Request.GetRecipe()) || digest.Digest(r.GetEnvironment()).Validate() != nil {
		r.Environment = ""
	}
	ended, err := s.storeEnd(ctx, rec, r, now)
	if err != nil || !ended {
		return err
	}
	wake(s.happened)
	reason := r.GetReason()
	if r.GetSucceeded() {
		reason = "succeeded"
	}
	s.noteCache(ctx, rec, r)
	s.metrics.ended.WithLabelValues(reason).Inc()
	if !rec.Started.IsZero() {
		s.metrics.seconds.WithLabelValues("queued").Observe(rec.Started.Sub(rec.Created).Seconds())
		s.metrics.seconds.WithLabelValues("running").Observe(now.Sub(rec.Started).Seconds())
		s.chargeMinutes(ctx, rec, minutesOf(rec, now)-1) // the first was charged when the build was accepted
	}
	s.deps.Log.InfoContext(ctx, "Build ended", "build_id", rec.ID, "reason", reason, "image", s.nameOf(rec.Request),
		"digest", r.GetDigest(), "ms", now.Sub(rec.Created).Milliseconds())
	return nil
}

// minutesOf returns the minutes that workers have begun to spend on a build since it was started last.
// Time beyond the time limit does not count: the result was only read late.
func minutesOf(rec store.Record, now time.Time) int {
	if rec.Started.IsZero() {
		return 0
	}
	return int((min(now.Sub(rec.Started), rec.TimeLimit) + time.Minute - 1) / time.Minute)
}

// chargeTimeout is how long Redis may take to charge minutes.
const chargeTimeout = 5 * time.Second

// chargeMinutes charges minutes of workers to the caller that started a build. If Redis fails, they
// are not charged later.
func (s *Service) chargeMinutes(ctx context.Context, rec store.Record, minutes int) {
	if rec.Request.GetIdentity() == nil {
		return
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), chargeTimeout)
	defer cancel()
	if err := s.deps.Limiter.SpendCaller(within, ratelimit.BuildMinutes, caller.Of(rec.Request.GetIdentity()).Charged(ctx), minutes); err != nil {
		s.deps.Log.WarnContext(ctx, "The minutes of a build were not charged", "build_id", rec.ID, "minutes", minutes, "err", err)
	}
}

// fail ends a build without a worker's report, unless a worker took it after r was read.
func (s *Service) fail(ctx context.Context, r store.Record, reason, message string) error {
	return s.finish(ctx, &buildv1.Result{
		BuildId: r.ID, Delivery: int32(r.Delivery), Reason: reason, Message: message,
	})
}

// failAnyway ends a build, whichever worker has it by now.
func (s *Service) failAnyway(ctx context.Context, r store.Record, reason, message string) error {
	r.Delivery = math.MaxInt32
	return s.fail(ctx, r, reason, message)
}

// observeGivenUp ends a build whose job was delivered the maximum number of times without a
// result.
func (s *Service) observeGivenUp(ctx context.Context, m *nats.Msg) {
	var advisory struct {
		Sequence   uint64 `json:"stream_seq"`
		Deliveries int    `json:"deliveries"`
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := json.Unmarshal(m.Data, &advisory)
	if err == nil {
		err = s.failUndeliverable(ctx, advisory.Sequence, advisory.Deliveries)
	}
	if err != nil {
		s.deps.Log.WarnContext(ctx, "A job that was given up cannot be ended now; it ends at its deadline", "err", err)
	}
}

func (s *Service) failUndeliverable(ctx context.Context, sequence uint64, deliveries int) error {
	id, err := s.queue.BuildOf(ctx, sequence)
	if err != nil || id == "" {
		return err // nil if the job was finished meanwhile
	}
	rec, err := s.store.Get(ctx, id)
	if err != nil || !rec.IsPending() {
		return ignoreNotFound(err)
	}
	return s.fail(ctx, rec, reasonInternal, fmt.Sprintf("%d workers were lost while they built it", deliveries))
}
