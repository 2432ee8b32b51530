package build

import (
	"context"
	"math"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
)

// endings notifies waiting calls that a build has ended.
type endings struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]bool
}

func newEndings() *endings { return &endings{waiting: map[string]map[chan struct{}]bool{}} }

// wait returns a channel that receives a value when the build ends. Call leave when it is
// no longer needed.
func (e *endings) wait(id string) (ended <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting[id] == nil {
		e.waiting[id] = map[chan struct{}]bool{}
	}
	e.waiting[id][c] = true
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting[id], c)
		if len(e.waiting[id]) == 0 {
			delete(e.waiting, id)
		}
	}
}

func (e *endings) notify(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.waiting[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// pollInterval is how often waiting calls read SQL without a notification, which may have been
// lost while NATS was unavailable.
const pollInterval = 30 * time.Second

// AwaitBuild returns when the build has ended, or shortly before the call's deadline with
// the build's current state.
func (s *Service) AwaitBuild(ctx context.Context, req *buildv1.AwaitBuildRequest) (*buildv1.AwaitBuildResponse, error) {
	// Subscribe before reading, so that an end in between is not missed.
	ended, leave := s.ended.wait(req.GetBuildId())
	defer leave()
	early, cancel := beforeDeadline(ctx)
	defer cancel()
	for {
		rec, err := s.read(ctx, req.GetBuildId())
		if err != nil {
			return nil, err
		}
		if req.GetNoWait() || !rec.IsPending() || early.Err() != nil {
			return s.stateOf(ctx, rec)
		}
		select {
		case <-ended:
		case <-early.Done():
		case <-time.After(pollInterval):
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// beforeDeadline returns a context that ends in time to read the state and respond.
func beforeDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-500*time.Millisecond))
	}
	return context.WithCancel(ctx)
}

// stateOf returns the state of a build, with its place in the queue and estimates of its
// start and end.
func (s *Service) stateOf(ctx context.Context, r store.Record) (*buildv1.AwaitBuildResponse, error) {
	out := outcome(r)
	start, end, err := s.estimates.Of(ctx, r)
	if err != nil {
		return nil, s.store.Fault("estimating a build", err)
	}
	if end != nil {
		out.ExpectedEnd = proto.Float64(math.Ceil(end.Seconds()))
	}
	if start != nil && end != nil {
		out.ExpectedStart = proto.Float64(math.Ceil(start.Seconds()))
	}
	if out.GetState() != buildv1.BuildState_BUILD_STATE_QUEUED {
		return out, nil
	}
	if len(r.Request.GetPartIds()) > 0 {
		return s.stateOfParts(ctx, r, out)
	}
	before, err := s.store.Ahead(ctx, r)
	if err != nil {
		return nil, s.store.Fault("counting the queue", err)
	}
	out.Position = before + 1
	return out, nil
}

// stateOfParts returns the state of a build that waits for its parts: it counts as
// running once one of them runs.
func (s *Service) stateOfParts(ctx context.Context, r store.Record, out *buildv1.AwaitBuildResponse) (*buildv1.AwaitBuildResponse, error) {
	for _, id := range r.Request.GetPartIds() {
		part, err := s.store.Get(ctx, id)
		if err != nil {
			return nil, s.store.Fault("reading the part of a build", err)
		}
		if !part.Started.IsZero() {
			out.State, out.StartedAt = buildv1.BuildState_BUILD_STATE_RUNNING, timestamppb.New(part.Started)
		}
	}
	return out, nil
}

func outcome(r store.Record) *buildv1.AwaitBuildResponse {
	out := &buildv1.AwaitBuildResponse{
		State: buildv1.BuildState_BUILD_STATE_QUEUED, CreatedAt: timestamppb.New(r.Created),
		Reason: r.Reason, Message: r.Message, Summary: summary(r.Message), Digest: r.Digest, TraceParent: r.TraceParent,
	}
	if !r.Started.IsZero() {
		out.State, out.StartedAt = buildv1.BuildState_BUILD_STATE_RUNNING, timestamppb.New(r.Started)
	}
	if !r.IsPending() {
		out.State, out.CompletedAt = buildv1.BuildState_BUILD_STATE_FAILED, timestamppb.New(r.Completed)
	}
	if r.Succeeded {
		out.State = buildv1.BuildState_BUILD_STATE_SUCCEEDED
	}
	return out
}
