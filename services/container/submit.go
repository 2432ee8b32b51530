package container

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/rpc"
)

// SubmitContainer returns a name for the requested image.
func (s *Service) SubmitContainer(ctx context.Context, req *containerv1.SubmitContainerRequest) (*containerv1.SubmitContainerResponse, error) {
	return s.submitOne(ctx, req.GetRequest())
}

// submitOne is SubmitContainer for one request of several, too.
func (s *Service) submitOne(ctx context.Context, raw *containerv1.ContainerRequest) (*containerv1.SubmitContainerResponse, error) {
	ctx, violations := enforce.WithNotes(ctx)
	a, err := s.submit(ctx, raw, false)
	if err != nil {
		return nil, err
	}
	out := s.response(a)
	notes := violations.Texts()
	if note := request.WithoutEffect(raw); note != "" {
		notes = append([]string{note}, notes...)
	}
	out.Message = rpc.Optional(strings.Join(notes, ". "))
	return out, nil
}

// SubmitContainerToken is the deprecated form with a shorter response.
func (s *Service) SubmitContainerToken(ctx context.Context, req *containerv1.SubmitContainerTokenRequest) (*containerv1.SubmitContainerTokenResponse, error) {
	ctx, _ = enforce.WithNotes(ctx) // the response has no place for them
	a, err := s.submit(ctx, req.GetRequest(), true)
	if err != nil {
		return nil, err
	}
	full := s.response(a)
	out := &containerv1.SubmitContainerTokenResponse{
		ContainerToken: proto.String(a.plan.GetToken()), Expiration: a.plan.GetExpiration(),
		RequestId: full.RequestId, TargetImage: full.TargetImage, ContainerImage: full.ContainerImage,
	}
	if !full.GetCached() { // only a build that the request has started
		out.BuildId = full.BuildId
	}
	return out, nil
}

// submit validates a request, starts the build that it needs, and stores it.
func (s *Service) submit(ctx context.Context, raw *containerv1.ContainerRequest, deprecated bool) (submission, error) {
	p, err := request.Parse(raw, s.deps.owns)
	if err != nil {
		return submission{}, err
	}
	r, err := s.resolve(ctx, p, deprecated)
	if err != nil {
		return submission{}, err
	}
	switch {
	case r.Raw.GetMirror():
		return s.submitMirror(ctx, r)
	case r.File != nil:
		return s.submitDockerfile(ctx, r)
	case r.Packages != nil:
		return s.submitPackages(ctx, r)
	case r.IsPermanent():
		return s.submitCopy(ctx, r)
	}
	return s.submitImage(ctx, r)
}

// resolve authenticates the caller of a request, verifies the request's contents, and looks
// up the images that issued names and inclusions represent.
func (s *Service) resolve(ctx context.Context, p request.Parsed, deprecated bool) (request.Resolved, error) {
	who, err := s.identify(ctx, p.Claim, scopesOf(p)...)
	if err != nil {
		return request.Resolved{}, err
	}
	if err := p.CheckContent(deprecated); err != nil {
		return request.Resolved{}, err
	}
	recipe, err := s.readRecipe(ctx, p, who)
	if err != nil {
		return request.Resolved{}, err
	}
	if err := s.checkRepositories(p, recipe, who); err != nil {
		return request.Resolved{}, err
	}
	if err := s.checkKeep(p, recipe, who); err != nil {
		return request.Resolved{}, err
	}
	if err := s.checkPolicy(ctx, p, recipe); err != nil {
		return request.Resolved{}, err
	}
	data, err := s.checkLayers(ctx, p, recipe.Packages, who)
	if err != nil {
		return request.Resolved{}, err
	}
	if err := s.checkAbilities(ctx, p, caller.Of(who)); err != nil {
		return request.Resolved{}, err
	}
	included, err := s.include(ctx, p, who)
	if err != nil {
		return request.Resolved{}, err
	}
	return request.Resolved{
		Parsed: p, Caller: who, Recipe: recipe, Data: data, Included: included, SifKey: s.sifKeyFor(p),
		KeepPackages: p.Raw.GetKeep() && s.deps.KeepPackages,
		Record:       p.Stored(s.deps.tokenIn(p.Image) != "", included),
	}, nil
}

// submitDockerfile submits the build of a Dockerfile.
func (s *Service) submitDockerfile(ctx context.Context, r request.Resolved) (submission, error) {
	b, err := s.draft(ctx, r, r.DockerfilePlan())
	if err != nil {
		return submission{}, err
	}
	return s.submitBuild(ctx, r, b, s.startBuild)
}

// sifKeyFor returns the key that signs the Singularity image of a request inside its file; "" for none. A kept image
// can be made again after the key was replaced, so that it is only signed by statements that refer to it.
func (s *Service) sifKeyFor(p request.Parsed) string {
	if p.Raw.GetKeep() {
		return ""
	}
	return s.deps.Signing.SifKey
}
