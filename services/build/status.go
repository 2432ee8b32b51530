package build

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/rpc"
)

// ids matches build ids: 16 hex digits of the content's digest, and a number.
var ids = regexp.MustCompile(`^[0-9a-f]{16}_[0-9]{1,9}$`)

func isID(s string) bool { return ids.MatchString(s) }

// read reads a build, or returns fault.NotFound.
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

// GetBuildStatus responds from SQL and the known presence of workers. It never waits or
// calls another service.
func (s *Service) GetBuildStatus(ctx context.Context, req *buildv1.GetBuildStatusRequest) (*buildv1.GetBuildStatusResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	now, err := s.stateOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	b := s.describe(rec)
	out := &buildv1.GetBuildStatusResponse{
		Id: b.BuildId, Status: b.Status, StartTime: b.GetStartTime(), Duration: b.Duration, Succeeded: b.Succeeded,
		Reason: b.Reason, ReasonCode: b.ReasonCode, Message: b.Message, ExpectedStart: now.ExpectedStart, ExpectedEnd: now.ExpectedEnd,
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
	if recipe.GetEngine() != engine.Conda { // with engine conda it is only a part of the recipe
		b.ContainerFile = rpc.Optional(s.deps.Keychain.Publish(recipe.GetContainerFile()))
	}
	b.CondaFile, b.BuildCompression = rpc.Optional(recipe.GetCondaFile()), recipe.GetCompression()
	b.ContentDigest = rpc.Optional(rec.Request.GetContentDigest())
	if recipe, err = s.first(ctx, rec); err != nil {
		return nil, err
	}
	b.CondaOpts = s.publishOptions(recipe.GetCondaOptions())
	if c := recipe.GetContext(); c != nil {
		b.ContextSize = proto.Float64(float64(c.GetGzipSize()))
	}
	return &buildv1.DescribeBuildResponse{Build: b}, nil
}

// publishOptions returns Conda options with the public names of their images.
func (s *Service) publishOptions(o *containerv1.CondaOptions) *containerv1.CondaOptions {
	if o == nil {
		return nil
	}
	out := proto.CloneOf(o)
	out.BaseImage, out.MambaImage = s.deps.Keychain.Publish(o.GetBaseImage()), s.deps.Keychain.Publish(o.GetMambaImage())
	return out
}

// first returns the recipe of a build, or of the first build whose image it uses.
func (s *Service) first(ctx context.Context, rec store.Record) (*buildv1.Recipe, error) {
	ids := rec.Request.GetPartIds()
	if len(ids) == 0 {
		return rec.Request.GetRecipe(), nil
	}
	part, err := s.read(ctx, ids[0])
	if errors.Is(err, fault.NotFound) { // deleted by now
		return nil, nil
	}
	return part.Request.GetRecipe(), err
}

// hasPrivateInputs reports whether a build, or a build whose image it uses, has a build
// context or an image of the service's own repository as input. If the record of a build
// whose image it uses was deleted, it returns true.
func (s *Service) hasPrivateInputs(ctx context.Context, rec store.Record) (bool, error) {
	recipe, source := rec.Request.GetRecipe(), rec.Request.GetRecipe().GetSource()
	if recipe.GetContext() != nil || len(rec.Request.GetGivenImages()) > 0 || source != nil && s.deps.Keychain.IsBuildRepository(source.GetRegistry(), source.GetRepository()) {
		return true, nil
	}
	for _, id := range rec.Request.GetPartIds() {
		part, err := s.read(ctx, id)
		if errors.Is(err, fault.NotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if private, err := s.hasPrivateInputs(ctx, part); private || err != nil {
			return private, err
		}
	}
	return false, nil
}

// LocateBuild returns where the image of a build is, or will be.
func (s *Service) LocateBuild(ctx context.Context, req *buildv1.LocateBuildRequest) (*buildv1.LocateBuildResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	private, err := s.hasPrivateInputs(ctx, rec)
	if err != nil {
		return nil, err
	}
	copied, err := s.copied(ctx, rec)
	if err != nil {
		return nil, err
	}
	recipe, now, t := rec.Request.GetRecipe(), outcome(rec), rec.Request.GetTarget()
	own := s.deps.Keychain.IsBuildRepository(t.GetRegistry(), t.GetRepository())
	return &buildv1.LocateBuildResponse{
		Target: t, Platform: recipe.GetPlatform(), Format: recipe.GetFormat(),
		Frozen:        !own && (recipe.GetConfig() != nil || slices.Contains([]string{engine.Freeze, engine.Mirror, engine.Sif}, recipe.GetEngine())),
		Mirror:        isMirror(rec.Request),
		Copied:        copied,
		Added:         own && recipe.GetConfig() != nil,
		PrivateInputs: private,
		Scope:         rec.Request.GetScope(), Identity: rec.Request.GetIdentity(),
		State: now.GetState(), Reason: rec.Reason, Message: rec.Message, Environment: rec.Environment,
	}, nil
}

// nameOf returns the public name of a build's image.
func (s *Service) nameOf(req *buildv1.SubmitBuildRequest) string {
	name := s.deps.Keychain.Publish(store.Image(req.GetTarget()))
	if req.GetRecipe().GetFormat() == "sif" {
		return "oras://" + name
	}
	return name
}

// describe returns the public record of a build.
func (s *Service) describe(r store.Record) *buildv1.Build {
	b := &buildv1.Build{
		BuildId: proto.String(r.ID), Status: proto.String("PENDING"),
		TargetImage: proto.String(s.nameOf(r.Request)), Platform: rpc.Optional(r.Request.GetRecipe().GetPlatform()),
		StartTime: timestamppb.New(r.Created),
	}
	if t := r.Request.GetTarget(); s.deps.Keychain.IsBuildRepository(t.GetRegistry(), t.GetRepository()) {
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
	b.Reason, b.ReasonCode, b.Message = rpc.Optional(summary(r.Message)), rpc.Optional(r.Reason), rpc.Optional(r.Message)
	b.Digest, b.Environment = rpc.Optional(r.Digest), rpc.Optional(r.Environment)
	return b
}

// maxSummary is the maximum length of a message that clients print on one line, in
// characters.
const maxSummary = 500

// summary returns a message on one line of at most maxSummary characters.
func summary(message string) string {
	line := []rune(strings.Join(strings.Fields(message), " "))
	if len(line) > maxSummary {
		line = append(line[:maxSummary-1], '…')
	}
	return string(line)
}

// totals are the numbers of builds of users with more than limits.CountedBuilds.
type totals = memo.Cache[caller.ID, int32]

func newTotals() *totals {
	return memo.NewCache(memo.Options[caller.ID, int32]{Most: limits.BuildTotals, Age: limits.BuildTotalAge})
}

// total returns the number of builds of a user, of which a page has been read. Builds are only counted if the page does
// not show the number, and a large number is remembered: counting takes longer than reading the page.
func (s *Service) total(ctx context.Context, who caller.ID, limit, offset, found int) (int32, error) {
	if found < limit && (found > 0 || offset == 0) { // the last page
		return int32(offset + found), nil
	}
	if n, ok := s.totals.Get(who); ok {
		if found > 0 { // builds were added
			n = max(n, int32(offset+found))
		}
		return n, nil
	}
	n, err := s.store.NumberOfUser(ctx, who)
	if err == nil && n > limits.CountedBuilds {
		s.totals.Set(who, n)
	}
	return n, err
}

// ListBuilds returns the builds of the user who owns the Bearer token.
func (s *Service) ListBuilds(ctx context.Context, req *buildv1.ListBuildsRequest) (*buildv1.ListBuildsResponse, error) {
	gate := caller.Gate{Platform: s.deps.Platform}
	id, err := gate.Identify(ctx, caller.Claim{})
	if err != nil {
		return nil, err
	}
	limit, offset, err := paging.ReadStrict(req, 20, 100)
	if err != nil {
		return nil, err
	}
	who := caller.Of(id)
	list, err := s.store.OfUser(ctx, who, limit, offset)
	if err != nil {
		return nil, s.store.Fault("listing builds", err)
	}
	total, err := s.total(ctx, who, limit, offset, len(list))
	if err != nil {
		return nil, s.store.Fault("counting builds", err)
	}
	out := &buildv1.ListBuildsResponse{TotalSize: proto.Int32(total)}
	for _, r := range list {
		out.Builds = append(out.Builds, s.describe(r))
	}
	return out, nil
}
