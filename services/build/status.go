package build

import (
	"context"
	"errors"
	"regexp"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/rpc"
)

// ids are 16 hex digits of the content's digest, and a number.
var ids = regexp.MustCompile(`^[0-9a-f]{16}_[0-9]{1,9}$`)

func isID(s string) bool { return ids.MatchString(s) }

// read reads a build; fault.NotFound when there is none.
func (s *Service) read(ctx context.Context, id string) (store.Record, error) {
	if !isID(id) {
		return store.Record{}, store.UnknownBuild(nil)
	}
	rec, err := s.store.Get(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return rec, s.store.Fault("reading a build", err)
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
	b, recipe := s.describe(rec), rec.Request.GetRecipe()
	if recipe.GetEngine() != engine.Conda { // else these are a few lines of it
		b.ContainerFile = rpc.Optional(recipe.GetContainerFile())
	}
	b.CondaFile, b.BuildCompression = rpc.Optional(recipe.GetCondaFile()), recipe.GetCompression()
	b.ContentDigest = rpc.Optional(rec.Request.GetContentDigest())
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
func (s *Service) first(ctx context.Context, rec store.Record) (*buildv1.Recipe, error) {
	ids := rec.Request.GetPartIds()
	if len(ids) == 0 {
		return rec.Request.GetRecipe(), nil
	}
	part, err := s.read(ctx, ids[0])
	if errors.Is(err, fault.NotFound) { // forgotten by now
		return nil, nil
	}
	return part.Request.GetRecipe(), err
}

// LocateBuild returns where the image of a build is, or will be.
func (s *Service) LocateBuild(ctx context.Context, req *buildv1.LocateBuildRequest) (*buildv1.LocateBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	recipe, now, t := rec.Request.GetRecipe(), outcome(rec), rec.Request.GetTarget()
	own := s.deps.Keychain.Owns(t.GetRegistry(), t.GetRepository())
	return &buildv1.LocateBuildResponse{
		Target: t, Platform: recipe.GetPlatform(), Format: recipe.GetFormat(),
		Frozen: !own && (recipe.GetConfig() != nil || recipe.GetEngine() == engine.Freeze || recipe.GetEngine() == engine.Sif),
		Added:  own && recipe.GetConfig() != nil,
		Scope:  rec.Request.GetScope(), Identity: rec.Request.GetIdentity(),
		State: now.GetState(), Reason: rec.Reason, Message: rec.Message,
	}, nil
}

// nameOf is the name of what a build makes, as it is pulled.
func nameOf(req *buildv1.SubmitBuildRequest) string {
	if req.GetRecipe().GetFormat() == "sif" {
		return "oras://" + store.Image(req.GetTarget())
	}
	return store.Image(req.GetTarget())
}

// describe is what every face shows of a build.
func (s *Service) describe(r store.Record) *buildv1.Build {
	b := &buildv1.Build{
		BuildId: proto.String(r.ID), Status: proto.String("PENDING"),
		TargetImage: proto.String(nameOf(r.Request)), Platform: rpc.Optional(r.Request.GetRecipe().GetPlatform()),
		StartTime: timestamppb.New(r.Created),
	}
	if t := r.Request.GetTarget(); s.deps.Keychain.Owns(t.GetRegistry(), t.GetRepository()) {
		b.Served = proto.Bool(true)
	}
	if id := r.Request.GetIdentity(); id != nil {
		b.UserId = proto.Float64(float64(id.GetUserId()))
	}
	if r.IsPending() {
		return b
	}
	b.Status = proto.String("COMPLETED")
	b.Succeeded = proto.Bool(r.Succeeded)
	b.Duration = proto.Float64(r.Completed.Sub(r.Created).Seconds())
	b.Reason, b.Message, b.Digest = rpc.Optional(r.Reason), rpc.Optional(r.Message), rpc.Optional(r.Digest)
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
	list, total, err := s.store.OfUser(ctx, id.GetEndpoint(), id.GetUserId(), limit, offset)
	if err != nil {
		return nil, s.store.Fault("listing builds", err)
	}
	out := &buildv1.ListBuildsResponse{TotalSize: proto.Int32(total)}
	for _, r := range list {
		out.Builds = append(out.Builds, s.describe(r))
	}
	return out, nil
}
