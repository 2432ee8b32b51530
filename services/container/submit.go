package container

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/sources"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// submission is what a request comes to.
type submission struct {
	plan *containerv1.Plan
	// build is nil where nothing has to be made.
	build   *buildv1.SubmitBuildResponse
	request *containerv1.ContainerRequest
}

// started is the id of the build that the request has started; "" for none.
func (a submission) started() string {
	if a.build.GetCached() {
		return ""
	}
	return a.build.GetBuildId()
}

// SubmitContainer returns a name for what the request describes.
func (s *Service) SubmitContainer(ctx context.Context, req *containerv1.SubmitContainerRequest) (*containerv1.SubmitContainerResponse, error) {
	a, err := s.submit(ctx, req.GetRequest(), false)
	if err != nil {
		return nil, err
	}
	out := &containerv1.SubmitContainerResponse{
		RequestId:      proto.String(a.plan.GetToken()),
		TargetImage:    proto.String(s.targetImage(a.plan)),
		ContainerImage: proto.String(containerImage(a.plan, a.request)),
		Freeze:         proto.Bool(a.plan.GetFrozen()),
		Mirror:         proto.Bool(false),
	}
	if !a.plan.GetFrozen() {
		out.ContainerToken, out.Expiration = proto.String(a.plan.GetToken()), a.plan.GetExpiration()
	}
	if a.build != nil {
		out.BuildId, out.Cached = proto.String(a.build.GetBuildId()), proto.Bool(a.build.GetCached())
	}
	if a.build == nil || a.build.GetSucceeded() {
		out.Succeeded = proto.Bool(true)
	}
	return out, nil
}

// SubmitContainerToken is the deprecated form, with a shorter response.
func (s *Service) SubmitContainerToken(ctx context.Context, req *containerv1.SubmitContainerTokenRequest) (*containerv1.SubmitContainerTokenResponse, error) {
	a, err := s.submit(ctx, req.GetRequest(), true)
	if err != nil {
		return nil, err
	}
	return &containerv1.SubmitContainerTokenResponse{
		ContainerToken: proto.String(a.plan.GetToken()),
		TargetImage:    proto.String(s.targetImage(a.plan)),
		Expiration:     a.plan.GetExpiration(),
		RequestId:      proto.String(a.plan.GetToken()),
		ContainerImage: proto.String(containerImage(a.plan, a.request)),
		BuildId:        rpc.Optional(a.started()),
	}, nil
}

// submit applies every rule, has made what must be made, and writes the request down.
func (s *Service) submit(ctx context.Context, raw *containerv1.ContainerRequest, deprecated bool) (submission, error) {
	if raw == nil {
		raw = &containerv1.ContainerRequest{}
	}
	r, err := request.Read(raw, s.deps.owns)
	if err != nil {
		return submission{}, err
	}
	who, err := s.identify(ctx, r.Claim)
	if err != nil {
		return submission{}, err
	}
	if r, err = s.withoutGiven(ctx, r, who); err != nil {
		return submission{}, err
	}
	if err := r.ReadContent(deprecated, s.deps.CondaImages); err != nil {
		return submission{}, err
	}
	data, err := s.checkLayers(ctx, r, who)
	if err != nil {
		return submission{}, err
	}
	if err := s.checkAbilities(ctx, r, caller.Of(who)); err != nil {
		return submission{}, err
	}
	if r, err = s.include(ctx, r, who); err != nil {
		return submission{}, err
	}
	switch {
	case r.Recipe != nil:
		return s.submitRecipe(ctx, r, who, data)
	case r.Raw.GetFreeze(), r.IsSif():
		return s.submitCopy(ctx, r, who, data)
	}
	return s.submitImage(ctx, r, who, data)
}

// submitImage serves an existing image, which takes no build.
func (s *Service) submitImage(ctx context.Context, r request.Request, who *platformv1.Identity, data contents) (submission, error) {
	plan, err := s.imagePlan(ctx, r, who)
	if err != nil {
		return submission{}, err
	}
	if err := s.keepLayers(ctx, data, plan.GetExpiration().AsTime()); err != nil {
		return submission{}, err
	}
	out := submission{plan: plan, request: r.Raw}
	if s.deps.tokenIn(r.Image) != "" {
		out.request = withoutName(r.Raw)
		out.request.WorkflowId = "" // no run makes it live longer than the name that it was made from
	}
	if plan.GetBuildId() != "" {
		out.build = &buildv1.SubmitBuildResponse{BuildId: plan.GetBuildId(), Cached: true, Succeeded: plan.GetBuilt()}
	}
	return out, s.keep(ctx, out.request, plan)
}

// withoutName is a request without the name that this service gave out: the token in it is
// not kept, and not shown again.
func withoutName(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	out := proto.CloneOf(r)
	out.ContainerImage = ""
	return out
}

// submitRecipe has the image made, unless it is there or under way, or cannot be: of its
// Conda packages alone where they are known, and else in steps.
func (s *Service) submitRecipe(ctx context.Context, r request.Request, who *platformv1.Identity, data contents) (submission, error) {
	patience := s.deps.CondaSolveWait
	if r.Raw.GetRefresh() { // without an answer there is nothing new
		patience = max(patience, limits.CondaPatience)
	}
	r.Foreseen = s.foresee(ctx, r, who, patience)
	out, err := s.submitDirect(ctx, r, who, data)
	if !errors.Is(err, errSteps) {
		return out, err
	}
	if r.Raw.GetRefresh() {
		return out, r.Foreseen.NotSolved("refresh: the packages of this request are not solved by this service, but by the build; leave it out")
	}
	out, err = s.submitMade(ctx, r, who, data)
	if !errors.Is(err, fault.Unsupported) || !r.CanBeDirect() || r.Recipe.Steps != "" || !r.Foreseen.Late {
		return out, r.Foreseen.Before(r.WithoutSteps(err))
	}
	// Nobody builds in steps here, and the packages need none: it is worth waiting for
	// a channel that is read for the first time.
	r.Foreseen = s.foresee(ctx, r, who, limits.CondaPatience)
	if r.Foreseen.Late {
		return out, r.Foreseen.NotSolved("")
	}
	if direct, late := s.submitDirect(ctx, r, who, data); !errors.Is(late, errSteps) {
		return direct, late
	}
	return out, r.Foreseen.Before(err)
}

// errSteps says that an image cannot be made of Conda packages alone.
var errSteps = errors.New("it is made in steps")

// submitDirect has the image put together of its packages; errSteps where it is not
// known which those are, where they are not all, or where no worker can do that.
func (s *Service) submitDirect(ctx context.Context, r request.Request, who *platformv1.Identity, data contents) (submission, error) {
	if !r.CanBeDirect() || !r.Foreseen.IsFor(r.Platforms) {
		return submission{}, errSteps
	}
	base := r.Foreseen.Base
	if _, ok := r.Given[r.Recipe.Base]; ok {
		base = r.Recipe.Base.Digest
	}
	if base == "" && s.deps.owns(r.Recipe.Base.Registry, r.Recipe.Base.Repository) {
		return submission{}, sources.NotFound(r.Recipe.Field, r.Recipe.Base, nil)
	}
	if base == "" {
		var err error
		if base, _, err = s.sources.Resolve(ctx, caller.Of(who), r.Recipe.Field, r.Recipe.Base); err != nil {
			return submission{}, err
		}
	}
	r = r.Directly(base)
	out, err := s.submitMade(ctx, r, who, data)
	if errors.Is(err, fault.Unsupported) && r.Recipe.Steps != "" && s.putsPackages(ctx) {
		return out, r.WithoutSteps(err) // who would install them in steps is missing, too
	}
	if errors.Is(err, fault.Unsupported) {
		return out, errSteps
	}
	if err == nil && r.Foreseen.Base == "" && !r.Raw.GetDryRun() {
		err = s.remember(ctx, r, who)
	}
	return out, err
}

// submitMade has the image made in the one way that the request says.
func (s *Service) submitMade(ctx context.Context, r request.Request, who *platformv1.Identity, data contents) (submission, error) {
	conflict := r.Foreseen.Conflict
	to, err := s.destination(ctx, r, caller.Of(who))
	if conflict != nil && err != nil {
		return submission{}, conflict
	}
	if err != nil {
		return submission{}, err
	}
	b, err := s.buildRequest(ctx, r, who, to, data.context)
	if err != nil {
		return submission{}, err
	}
	if conflict != nil && !s.isMade(ctx, b) {
		return submission{}, conflict
	}
	return s.submitBuild(ctx, r, who, b, data)
}

// submitCopy has an existing image copied to a repository of its caller's, with what
// the request adds, or a Singularity image made of it.
func (s *Service) submitCopy(ctx context.Context, r request.Request, who *platformv1.Identity, data contents) (submission, error) {
	b, err := s.copyRequest(ctx, r, who)
	if err != nil {
		return submission{}, err
	}
	if s.deps.tokenIn(r.Image) != "" {
		r.Raw = withoutName(r.Raw)
	}
	return s.submitBuild(ctx, r, who, b, data)
}

// submitBuild has the build room make an image, and gives it a name.
func (s *Service) submitBuild(ctx context.Context, r request.Request, who *platformv1.Identity, b *buildv1.SubmitBuildRequest, data contents) (submission, error) {
	plan := s.buildPlan(r, who, b.GetTarget())
	if n := s.excess(plan); n > 0 && !plan.GetFrozen() {
		return submission{}, fault.Invalid.Newf("buildRepository: the name of the image is %d characters too long to be served", n)
	}
	// A worker may ask for the layers as soon as the build is there.
	if err := s.keepLayers(ctx, data, plan.GetExpiration().AsTime()); err != nil {
		return submission{}, err
	}
	resp, err := s.deps.Build.SubmitBuild(ctx, b)
	if err != nil {
		return submission{}, err
	}
	plan.BuildId, plan.Built = resp.GetBuildId(), resp.GetSucceeded()
	if b.GetDryRun() {
		resp.BuildId = b.GetContentId() + "_0"
	}
	out := submission{plan: plan, build: resp, request: r.Raw}
	if strings.HasSuffix(plan.GetBuildId(), "_0") {
		return out, nil // a dry run of what nobody builds: there is nothing to pull
	}
	return out, s.keep(ctx, r.Raw, plan)
}
