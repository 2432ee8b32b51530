package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// SubmitBuild finds the image, joins a build that makes it, or queues one.
func (s *Service) SubmitBuild(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	// Whoever loses the race for the one pending build finds the winner's in the
	// next round, or the image that it made meanwhile.
	for round := range 5 {
		out, err := s.submitOnce(ctx, req)
		if errors.Is(err, fault.Exhausted) && round < 2 {
			// The last of the quota may have gone to this very image a moment ago.
			if !retry.Sleep(ctx, 20*time.Millisecond) {
				return nil, ctx.Err()
			}
			continue
		}
		if out != nil || err != nil {
			return out, err
		}
	}
	return nil, fault.Unavailable.Newf("Too many builds of this image start and end right now; try again").After(time.Second)
}

func check(req *buildv1.SubmitBuildRequest) error {
	d := digest.NewDigestFromEncoded(digest.SHA256, req.GetContentDigest())
	t := req.GetTarget()
	switch {
	case d.Validate() != nil || req.GetContentId() != req.GetContentDigest()[:16]:
		return fault.Invalid.Newf("The content's digest is malformed")
	case t.GetRegistry() == "" || t.GetRepository() == "" || !oci.IsTag(t.GetTag()):
		return fault.Invalid.Newf("The build has no target")
	case store.CheckLock(req.GetLock()) != nil:
		return store.CheckLock(req.GetLock())
	case len(req.GetParts()) > 0:
		return checkParts(req)
	case req.GetRecipe().GetEngine() == engine.Conda && digest.FromString(lockRecords(req.GetLock())).Encoded() != req.GetRecipe().GetLockDigest():
		return fault.Invalid.Newf("The build's lock is not the one that its recipe names")
	case req.GetRecipe().GetEngine() == "" || engine.KindOf(req.GetRecipe()).Architecture == "":
		return fault.Invalid.Newf("The recipe has no engine or no platform")
	}
	return nil
}

// submitOnce returns nil when another request was faster.
func (s *Service) submitOnce(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	made, err := s.alreadyMade(ctx, req)
	if made != nil || err != nil {
		return made, err
	}
	running, err := s.store.Pending(ctx, store.Image(req.GetTarget()), req.GetScope())
	switch {
	case err == nil:
		return s.join(req, running)
	case !errors.Is(err, fault.NotFound):
		return nil, s.store.Fault("looking for a build under way", err)
	case req.GetDryRun():
		return &buildv1.SubmitBuildResponse{BuildId: req.GetContentId() + "_0"}, nil
	case len(req.GetParts()) > 0:
		return s.admitParts(ctx, req)
	}
	return s.admit(ctx, req)
}

func (s *Service) join(req *buildv1.SubmitBuildRequest, running store.Record) (*buildv1.SubmitBuildResponse, error) {
	if running.Request.GetContentDigest() != req.GetContentDigest() {
		return nil, anotherImage(req)
	}
	s.metrics.admitted.WithLabelValues("joined").Inc()
	return &buildv1.SubmitBuildResponse{BuildId: running.ID, Cached: true}, nil
}

func anotherImage(req *buildv1.SubmitBuildRequest) error {
	return fault.Conflict.Newf("The name %s is another image's already; change the recipe a little", store.Image(req.GetTarget()))
}

// alreadyMade answers where the image is there; nil where it is not. A name in a
// repository of the caller's that holds something else is built over.
func (s *Service) alreadyMade(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	t := req.GetTarget()
	access, err := s.deps.Keychain.Target(ctx, caller.Of(req.GetIdentity()), t.GetRegistry(), t.GetRepository())
	if err != nil {
		return nil, err
	}
	repo := upstream.Repository{Host: t.GetRegistry(), Name: t.GetRepository()}
	known, err := s.store.Made(ctx, store.Image(t), req.GetScope())
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, s.store.Fault("looking for a build that made the image", err)
	}
	if err == nil && known.Request.GetContentDigest() == req.GetContentDigest() {
		d, err := s.deps.Upstream.Resolve(ctx, repo, t.GetTag(), access)
		if err == nil && d.String() == known.Digest {
			return s.cached(known.ID), nil
		}
		if err != nil {
			return nil, s.missing(req, err)
		}
	}
	doc, err := s.deps.Upstream.Manifest(ctx, repo, t.GetTag(), access)
	if err != nil {
		return nil, s.missing(req, err)
	}
	if !s.deps.Keychain.Owns(t.GetRegistry(), t.GetRepository()) {
		return nil, nil // somebody else may have written what is there: it is built anew
	}
	return s.recognise(ctx, doc, req)
}

// missing is nil where the image is simply not there.
func (s *Service) missing(req *buildv1.SubmitBuildRequest, err error) error {
	e, ok := fault.As(err)
	if !ok || errors.Is(e, fault.NotFound) {
		return ignoreNotFound(err)
	}
	name := store.Image(req.GetTarget())
	if errors.Is(e, fault.Unauthenticated) || errors.Is(e, fault.Denied) {
		// Some registries answer so for a repository that does not exist yet; the
		// push will tell.
		return nil
	}
	return &fault.Error{Kind: e.Kind, Public: fmt.Sprintf("Looking for %s: %s", name, e.Public), Cause: e, RetryAfter: e.RetryAfter}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (s *Service) cached(id string) *buildv1.SubmitBuildResponse {
	s.metrics.admitted.WithLabelValues("cached").Inc()
	return &buildv1.SubmitBuildResponse{BuildId: id, Cached: true, Succeeded: true}
}

// admit charges the caller and queues a build; nil when another request was
// faster.
func (s *Service) admit(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	if err := s.can(req.GetRecipe()); err != nil {
		return nil, err
	}
	rec, err := s.newRecord(ctx, req)
	if err != nil {
		return nil, err
	}
	refund, err := s.charge(ctx, rec)
	if err != nil {
		return nil, err
	}
	won, err := s.write(ctx, rec)
	if err != nil || !won {
		refund()
		return nil, err
	}
	s.metrics.admitted.WithLabelValues("new").Inc()
	wake(s.queued)
	wake(s.admitted)
	return &buildv1.SubmitBuildResponse{BuildId: rec.ID}, nil
}

// write writes a new build; false when another request was faster. Where its id is
// taken by a build of something else it gets another: nobody can keep a content from
// being built by taking its ids.
func (s *Service) write(ctx context.Context, r *store.Record) (won bool, err error) {
	for {
		won, err = s.store.Insert(ctx, r)
		if err != nil {
			return false, s.store.Fault("writing a build", err)
		}
		if won {
			return true, nil
		}
		foreign, err := s.store.Foreign(ctx, r.ID, r.Request.GetContentId())
		if err != nil {
			return false, s.store.Fault("numbering a build", err)
		}
		if !foreign || r.Number > store.MaxNumber/2 {
			return false, nil
		}
		r.Renumber(r.Number * 2)
	}
}

// newRecord also stores the context's bytes.
func (s *Service) newRecord(ctx context.Context, req *buildv1.SubmitBuildRequest) (*store.Record, error) {
	now := s.deps.Now()
	last, err := s.store.LastNumber(ctx, req.GetContentId())
	if err != nil {
		return nil, s.store.Fault("numbering a build", err)
	}
	r := &store.Record{
		Request: withoutData(req), Owner: owner(ctx, req), TraceParent: bus.TraceParent(ctx), TimeLimit: s.deps.TimeAnonymous, Created: now,
		Lock: req.GetLock(),
	}
	r.Renumber(last + 1)
	if req.GetIdentity() != nil {
		r.TimeLimit = s.deps.TimeUser
	}
	data := req.GetRecipe().GetContextData()
	if len(data) == 0 {
		return r, nil
	}
	if err := s.space.Take(ctx, int64(len(data))); err != nil {
		return nil, err
	}
	err = s.store.PutContext(ctx, req.GetRecipe().GetContext().GetGzipDigest(), data, now.Add(7*24*time.Hour))
	if err != nil {
		return nil, s.store.Fault("storing a build context", err)
	}
	return r, nil
}

// withoutData is what is kept of a Request: the context's bytes and the lock have
// places of their own.
func withoutData(req *buildv1.SubmitBuildRequest) *buildv1.SubmitBuildRequest {
	if len(req.GetRecipe().GetContextData()) == 0 && req.GetLock() == nil {
		return req
	}
	kept := proto.CloneOf(req)
	kept.Lock = nil
	if kept.GetRecipe() != nil {
		kept.Recipe.ContextData = nil
	}
	return kept
}

// owner is whose turn a build takes and whose quota: a user's or an address's.
func owner(ctx context.Context, req *buildv1.SubmitBuildRequest) string {
	if id := caller.Of(req.GetIdentity()); !id.IsAnonymous() {
		return "user:" + id.User()
	}
	return rpc.CallFrom(ctx).Client()
}

// charge counts a build; refund takes it back.
func (s *Service) charge(ctx context.Context, r *store.Record) (refund func(), err error) {
	limit := s.deps.BuildsAnonymous
	switch {
	case r.Request.GetIdentity() != nil:
		limit = s.deps.BuildsUser
	case s.deps.OwnMachineFree && rpc.CallFrom(ctx).ClientIP.IsLoopback():
		limit = nil
	}
	if _, err := s.deps.Limiter.Charge(ctx, "builds", r.Owner, limit, 1); err != nil {
		return nil, err
	}
	return func() {
		if _, err := s.deps.Limiter.Charge(context.WithoutCancel(ctx), "builds", r.Owner, limit, -1); err != nil {
			s.deps.Log.WarnContext(ctx, "A build that another request started was charged", "err", err)
		}
	}, nil
}
