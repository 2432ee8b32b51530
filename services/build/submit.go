package build

import (
	"cmp"
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
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// SubmitBuild finds an existing image, joins an unfinished build of it, or queues a new
// one.
func (s *Service) SubmitBuild(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	// A request that loses the race for the one pending build finds that build, or its
	// image, in the next round.
	for round := range 5 {
		out, err := s.submitOnce(ctx, req)
		if errors.Is(err, fault.Exhausted) && round < 2 {
			// Another request for the same image may just have used the rest of the quota. Then
			// the next round joins its build.
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
	case t.GetRegistry() == "" || t.GetRepository() == "" || !hasReference(req):
		return fault.Invalid.Newf("The build has no target")
	case store.CheckLock(req.GetLock()) != nil:
		return store.CheckLock(req.GetLock())
	case len(req.GetParts()) > 0:
		return checkParts(req)
	case req.GetUnsolved() != nil:
		return checkUnsolved(req)
	case req.GetRecipe().GetEngine() == engine.Conda && digest.FromString(lockRecords(req.GetLock())).Encoded() != req.GetRecipe().GetLockDigest():
		return fault.Invalid.Newf("The build's lock is not the one that its recipe names")
	case req.GetRecipe().GetEngine() == "" || engine.KindOf(req.GetRecipe()).Architecture == "":
		return fault.Invalid.Newf("The recipe has no engine or no platform")
	}
	return nil
}

// hasReference reports whether the target has a valid tag or, for a mirror, the source's digest.
func hasReference(req *buildv1.SubmitBuildRequest) bool {
	t, r := req.GetTarget(), req.GetRecipe()
	if t.GetDigest() != "" {
		return t.GetTag() == "" && r.GetEngine() == engine.Mirror && t.GetDigest() == r.GetSource().GetReference() && digest.Digest(t.GetDigest()).Validate() == nil
	}
	return oci.IsTag(t.GetTag())
}

// referenceOf returns the tag or the digest of a target.
func referenceOf(t *buildv1.Target) string { return cmp.Or(t.GetTag(), t.GetDigest()) }

// submitOnce returns nil if another request was faster.
func (s *Service) submitOnce(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	made, err := s.existingImage(ctx, req)
	if made != nil || err != nil {
		return made, err
	}
	running, err := s.store.Pending(ctx, store.Image(req.GetTarget()), req.GetScope())
	switch {
	case err == nil:
		return s.join(req, running)
	case !errors.Is(err, fault.NotFound):
		return nil, s.store.Fault("looking for an unfinished build", err)
	case req.GetDryRun():
		return s.dryRun(ctx, req)
	case len(req.GetParts()) > 0:
		return s.admitParts(ctx, req)
	}
	return s.admit(ctx, req)
}

// dryRun returns the response to a dry run that would have started a build.
func (s *Service) dryRun(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	out := &buildv1.SubmitBuildResponse{BuildId: req.GetContentId() + "_0"}
	last, err := s.store.Newest(ctx, req.GetContentDigest())
	switch {
	case errors.Is(err, fault.NotFound):
	case err != nil:
		return nil, s.store.Fault("reading the newest build of an image", err)
	case !last.IsPending() && !last.Succeeded:
		out.LastFailure = last.Reason
	}
	return out, nil
}

func (s *Service) join(req *buildv1.SubmitBuildRequest, running store.Record) (*buildv1.SubmitBuildResponse, error) {
	if isOutdated(running, req) {
		return nil, fault.Unavailable.Newf("The channel no longer has a package of the lock, and another build of the image, with a newer lock, is running; try again when it has ended").After(time.Minute)
	}
	if running.Request.GetContentDigest() != req.GetContentDigest() {
		if isMirror(req) {
			return nil, fault.Unavailable.Newf("Another image is being copied to %s; try again when that has ended", store.Image(req.GetTarget())).After(time.Minute)
		}
		return nil, anotherImage(req)
	}
	s.metrics.admitted.WithLabelValues("joined").Inc()
	return &buildv1.SubmitBuildResponse{BuildId: running.ID, Cached: true}, nil
}

func anotherImage(req *buildv1.SubmitBuildRequest) error {
	return fault.Conflict.Newf("The name %s already belongs to another image; change the recipe slightly", store.Image(req.GetTarget()))
}

// existingImage returns the response for an existing image, or nil. If the name in a caller's
// repository holds something else, it is overwritten by a new build.
func (s *Service) existingImage(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	t := req.GetTarget()
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(req.GetIdentity()), t.GetRegistry(), t.GetRepository())
	if err != nil {
		return nil, err
	}
	repo := upstream.Repository{Host: t.GetRegistry(), Name: t.GetRepository()}
	known, err := s.knownBuild(ctx, req)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, s.store.Fault("looking for a build that made the image", err)
	}
	if err == nil && isOutdated(known, req) {
		return nil, nil // build the image again
	}
	if err == nil && known.Request.GetContentDigest() == req.GetContentDigest() {
		d, err := s.deps.Upstream.Resolve(ctx, repo, referenceOf(t), access)
		if err != nil {
			return nil, s.missing(req, err)
		}
		if d.String() == known.Digest {
			if isMounted(req) {
				if complete, err := s.hasEnvironments(ctx, known, repo, access); !complete {
					return nil, s.missing(req, err)
				}
			}
			return s.cached(known.ID), nil
		}
	}
	if isMounted(req) {
		return nil, nil // only the record of a build names the artifact with the environment
	}
	if isMirror(req) {
		return nil, nil // the target may lack referrers, so that only a mirror proves that it is complete
	}
	doc, err := s.deps.Upstream.Manifest(ctx, repo, t.GetTag(), access)
	if err != nil {
		return nil, s.missing(req, err)
	}
	if !s.deps.Keychain.IsBuildRepository(t.GetRegistry(), t.GetRepository()) {
		return nil, nil // another client may have written what exists, so the image is built again
	}
	return s.recognise(ctx, doc, req)
}

// knownBuild returns the newest successful build of the target, or fault.NotFound. A tag of mirrors
// has had images of different contents, so that it is that of the same content.
func (s *Service) knownBuild(ctx context.Context, req *buildv1.SubmitBuildRequest) (store.Record, error) {
	if !isMirror(req) {
		return s.store.NewestSuccess(ctx, store.Image(req.GetTarget()), req.GetScope())
	}
	last, err := s.store.Newest(ctx, req.GetContentDigest())
	if err == nil && !last.Succeeded {
		return last, fault.NotFound.Newf("The newest mirror has not succeeded")
	}
	return last, err
}

// missing returns nil if err means that the image does not exist.
func (s *Service) missing(req *buildv1.SubmitBuildRequest, err error) error {
	e, ok := fault.As(err)
	if !ok || errors.Is(e, fault.NotFound) {
		return ignoreNotFound(err)
	}
	name := store.Image(req.GetTarget())
	if errors.Is(e, fault.Unauthenticated) || errors.Is(e, fault.Denied) {
		// Some registries respond like this for a repository that does not exist yet. If it
		// is another problem, the push will fail.
		return nil
	}
	public := fmt.Sprintf("Looking for %s: %s", name, e.Public)
	if upstream.IsRegistry(e) && !s.deps.Keychain.IsBuildRepository(req.GetTarget().GetRegistry(), req.GetTarget().GetRepository()) { // the request names it
		return fault.Invalid.New(public, e).WithCode(e.Code)
	}
	return &fault.Error{Kind: e.Kind, Public: public, Code: e.Code, Cause: e, RetryAfter: e.RetryAfter}
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

// admit charges the caller and queues a build. It returns nil if another request was
// faster.
func (s *Service) admit(ctx context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	if err := s.can(ctx, req.GetRecipe()); err != nil {
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
	if req.GetUnsolved() == nil { // otherwise it cannot be dispatched yet
		wake(s.queued)
	}
	wake(s.admitted)
	return &buildv1.SubmitBuildResponse{BuildId: rec.ID}, nil
}

// write stores a new build, and returns false if another request was faster. If the id
// belongs to a build of other content, the new build gets another id, so that no client can
// block content by taking its ids.
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

// newRecord returns the record of a new build, and stores the build context.
func (s *Service) newRecord(ctx context.Context, req *buildv1.SubmitBuildRequest) (*store.Record, error) {
	now := s.deps.Now()
	last, err := s.store.LastNumber(ctx, req.GetContentId())
	if err != nil {
		return nil, s.store.Fault("numbering a build", err)
	}
	if last >= store.MaxNumber {
		return nil, fault.Exhausted.Newf("the content %s was built %d times, and cannot be built again; change the request", req.GetContentId(), last)
	}
	r := &store.Record{
		Request: withoutData(req), Owner: owner(ctx, req), TraceParent: bus.TraceParent(ctx), TimeLimit: s.deps.TimeAnonymous, Created: now,
		Lock: req.GetLock(),
	}
	r.Renumber(last + 1)
	if req.GetIdentity() != nil || s.isKept(req.GetTarget()) { // a user may have kept the image that is made again for others
		r.TimeLimit = s.deps.TimeUser
	}
	data := req.GetRecipe().GetContextData()
	if len(data) == 0 {
		return r, nil
	}
	if err := s.space.Reserve(ctx, int64(len(data))); err != nil {
		return nil, err
	}
	err = s.store.PutContext(ctx, req.GetRecipe().GetContext().GetGzipDigest(), data, now.Add(7*24*time.Hour))
	if err != nil {
		return nil, s.store.Fault("storing a build context", err)
	}
	return r, nil
}

// withoutData returns the stored form of a request, without the context's bytes and the
// lock, which are stored separately.
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

// owner returns the client that a build counts for in the queue and in quotas.
func owner(ctx context.Context, req *buildv1.SubmitBuildRequest) string {
	return caller.Of(req.GetIdentity()).Client(ctx).String()
}

// charge charges a build and its first minute; refund reverses that.
func (s *Service) charge(ctx context.Context, r *store.Record) (refund func(), err error) {
	free := s.deps.OwnMachineFree
	if r.Request.GetIdentity() == nil && free != nil && rpc.CallFrom(ctx).ClientIP.IsLoopback() && free() {
		return func() {}, nil
	}
	who := caller.Of(r.Request.GetIdentity()).Charged(ctx)
	refundBuild, err := s.chargeOne(ctx, ratelimit.Builds, who)
	if err != nil {
		return nil, err
	}
	// The first minute is charged in advance, so that no more builds can be queued than there are minutes.
	refundMinute, err := s.chargeOne(ctx, ratelimit.BuildMinutes, who)
	if err != nil {
		refundBuild()
		return nil, err
	}
	return func() { refundBuild(); refundMinute() }, nil
}

// chargeOne charges one of a kind; refund reverses that.
func (s *Service) chargeOne(ctx context.Context, k ratelimit.Kind, who ratelimit.Caller) (refund func(), err error) {
	budgets := s.deps.Limiter.BudgetsOf(k, who) // the refund must use the same limits
	if _, err := s.deps.Limiter.ChargeBudgets(ctx, k, budgets, 1); err != nil {
		return nil, err
	}
	return func() {
		if _, err := s.deps.Limiter.ChargeBudgets(context.WithoutCancel(ctx), k, budgets, -1); err != nil {
			s.deps.Log.WarnContext(ctx, "A build that was not started was charged", "limit", k, "err", err)
		}
	}, nil
}
