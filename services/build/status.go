package build

import (
	"context"
	"errors"
	"regexp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/rpc"
)

// ids are 16 hex digits of the content's digest, and a number.
var ids = regexp.MustCompile(`^[0-9a-f]{16}_[0-9]{1,9}$`)

func isID(s string) bool { return ids.MatchString(s) }

// read reads a build; fault.NotFound when there is none.
func (s *Service) read(ctx context.Context, id string) (record, error) {
	if !isID(id) {
		return record{}, unknownBuild(nil)
	}
	rec, err := s.store.get(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return rec, s.deps.DB.Fault("reading a build", err)
	}
	return rec, err
}

// GetBuildStatus answers from SQL, and what workers said of themselves: it never waits and
// asks nobody.
func (s *Service) GetBuildStatus(ctx context.Context, req *buildv1.GetBuildStatusRequest) (*buildv1.GetBuildStatusResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	now, err := s.standing(ctx, rec)
	if err != nil {
		return nil, err
	}
	b := s.describe(rec)
	out := &buildv1.GetBuildStatusResponse{
		Id: b.BuildId, Status: b.Status, StartTime: b.GetStartTime(), Duration: b.Duration, Succeeded: b.Succeeded,
		Reason: b.Reason, Message: b.Message, ExpectedStart: now.ExpectedStart, ExpectedEnd: now.ExpectedEnd,
	}
	if now.GetPosition() > 0 {
		out.Position = proto.Int32(now.GetPosition())
	}
	return out, nil
}

// DescribeBuild returns the record of a build.
func (s *Service) DescribeBuild(ctx context.Context, req *buildv1.DescribeBuildRequest) (*buildv1.DescribeBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	b, recipe := s.describe(rec), rec.request.GetRecipe()
	if recipe.GetEngine() != engineConda { // else these are a few lines of it
		b.ContainerFile = rpc.Optional(recipe.GetContainerFile())
	}
	b.CondaFile, b.BuildCompression = rpc.Optional(recipe.GetCondaFile()), recipe.GetCompression()
	b.ContentDigest = rpc.Optional(rec.request.GetContentDigest())
	if recipe, err = s.first(ctx, rec); err != nil {
		return nil, err
	}
	b.CondaOpts = recipe.GetCondaOptions()
	if c := recipe.GetContext(); c != nil {
		b.ContextSize = proto.Float64(float64(c.GetGzipSize()))
	}
	return &buildv1.DescribeBuildResponse{Build: b}, nil
}

// first is the recipe of a build, or of the first of those that it is made from.
func (s *Service) first(ctx context.Context, rec record) (*buildv1.Recipe, error) {
	ids := rec.request.GetPartIds()
	if len(ids) == 0 {
		return rec.request.GetRecipe(), nil
	}
	part, err := s.read(ctx, ids[0])
	if errors.Is(err, fault.NotFound) { // forgotten by now
		return nil, nil
	}
	return part.request.GetRecipe(), err
}

// LocateBuild returns where the image of a build is, or will be.
func (s *Service) LocateBuild(ctx context.Context, req *buildv1.LocateBuildRequest) (*buildv1.LocateBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	recipe, now, t := rec.request.GetRecipe(), outcome(rec), rec.request.GetTarget()
	own := s.deps.Keychain.Owns(t.GetRegistry(), t.GetRepository())
	return &buildv1.LocateBuildResponse{
		Target: t, Platform: recipe.GetPlatform(), Format: recipe.GetFormat(),
		Frozen: !own && (recipe.GetConfig() != nil || recipe.GetEngine() == engineFreeze || recipe.GetEngine() == engineSif),
		Added:  own && recipe.GetConfig() != nil,
		Scope:  rec.request.GetScope(), Identity: rec.request.GetIdentity(),
		State: now.GetState(), Reason: rec.reason, Message: rec.message,
	}, nil
}

// describe is what every face shows of a build.
func (s *Service) describe(r record) *buildv1.Build {
	b := &buildv1.Build{
		BuildId: proto.String(r.id), Status: proto.String("PENDING"),
		TargetImage: proto.String(nameOf(r.request)), Platform: rpc.Optional(r.request.GetRecipe().GetPlatform()),
		StartTime: timestamppb.New(r.created),
	}
	if t := r.request.GetTarget(); s.deps.Keychain.Owns(t.GetRegistry(), t.GetRepository()) {
		b.Served = proto.Bool(true)
	}
	if id := r.request.GetIdentity(); id != nil {
		b.UserId = proto.Float64(float64(id.GetUserId()))
	}
	if r.isPending() {
		return b
	}
	b.Status = proto.String("COMPLETED")
	b.Succeeded = proto.Bool(r.succeeded)
	b.Duration = proto.Float64(r.completed.Sub(r.created).Seconds())
	b.Reason, b.Message, b.Digest = rpc.Optional(r.reason), rpc.Optional(r.message), rpc.Optional(r.digest)
	return b
}

// ListBuilds returns the builds of the user whom the Bearer token names.
func (s *Service) ListBuilds(ctx context.Context, req *buildv1.ListBuildsRequest) (*buildv1.ListBuildsResponse, error) {
	limit, offset, err := paging.Strictly(req, 20, 100)
	if err != nil {
		return nil, err
	}
	gate := caller.Gate{Platform: s.deps.Platform}
	id, err := gate.Identify(ctx, caller.Claim{})
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.ofUser(ctx, id.GetEndpoint(), id.GetUserId(), limit, offset)
	if err != nil {
		return nil, s.deps.DB.Fault("listing builds", err)
	}
	out := &buildv1.ListBuildsResponse{TotalSize: proto.Int32(total)}
	for _, r := range list {
		out.Builds = append(out.Builds, s.describe(r))
	}
	return out, nil
}
