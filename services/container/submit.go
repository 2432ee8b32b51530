package container

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/addition"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// answer is what a request comes to.
type answer struct {
	plan *containerv1.Plan
	// build is nil where nothing has to be made.
	build   *buildv1.SubmitBuildResponse
	request *containerv1.ContainerRequest
}

// SubmitContainer answers a name for what the request describes.
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

// SubmitContainerToken is the deprecated form, with a shorter answer.
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
		BuildId:        present(a.build.GetBuildId()),
	}, nil
}

// submit applies every rule and writes the request down.
func (s *Service) submit(ctx context.Context, r *containerv1.ContainerRequest, deprecated bool) (answer, error) {
	if r == nil {
		r = &containerv1.ContainerRequest{}
	}
	var who *platformv1.Identity
	c, err := rules{deprecated: deprecated, owns: s.deps.owns, identify: func(claim caller.Claim) (err error) {
		if who, err = s.gate().Identify(ctx, claim); err != nil {
			return err
		}
		return s.charge(ctx, who, 1)
	}}.check(r)
	if err != nil {
		return answer{}, err
	}
	data, err := s.checkLayers(ctx, c, who)
	if err != nil {
		return answer{}, err
	}
	if err := s.switchedOff(r); err != nil {
		return answer{}, err
	}
	if err := s.checkPusher(ctx, c, caller.Of(who)); err != nil {
		return answer{}, err
	}
	if err := s.checkCache(ctx, c, caller.Of(who)); err != nil {
		return answer{}, err
	}
	switch {
	case c.recipe != nil:
		return s.submitRecipe(ctx, c, who, data)
	case r.GetFreeze():
		return s.submitFrozen(ctx, c, who, data)
	}
	plan, err := s.plan(ctx, c, who)
	if err != nil {
		return answer{}, err
	}
	if err := s.keepLayers(ctx, data, plan.GetExpiration().AsTime()); err != nil {
		return answer{}, err
	}
	return answer{plan: plan, request: r}, s.keep(ctx, r, plan)
}

func (s *Service) gate() caller.Gate {
	return caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}
}

// switchedOff follows gateway/contract/container-service.md#capabilities, as far as
// this room knows.
func (s *Service) switchedOff(r *containerv1.ContainerRequest) error {
	switch {
	case isRecipe(r) && (s.deps.Build == nil || s.deps.Builds == Builds{}):
		return fault.Unsupported.Newf("This service does not build images: give an existing one as containerImage")
	case r.GetFreeze() && s.deps.Build == nil:
		return fault.Unsupported.Newf("This service does not freeze images: leave freeze out, and pull the name that is answered")
	}
	return nil
}

// plan looks the image up and says what the registry will serve.
func (s *Service) plan(ctx context.Context, c checked, who *platformv1.Identity) (*containerv1.Plan, error) {
	if s.deps.owns(c.image.Registry, c.image.Repository) {
		return nil, missing("containerImage", c.image, nil)
	}
	resolved, access, err := s.sources.resolve(ctx, caller.Of(who), "containerImage", c.image)
	if err != nil {
		return nil, err
	}
	plan := &containerv1.Plan{
		Token: newToken(),
		Source: &containerv1.Source{
			Registry: c.image.Registry, Repository: c.image.Repository, Reference: c.image.Identifier(),
		},
		Name:       c.image.Repository,
		Reference:  c.image.Identifier(),
		Platform:   c.platform.String(),
		Config:     bare(c.raw.GetContainerConfig()),
		Identity:   who,
		Expiration: s.expiration(),
		Digests:    []string{resolved.String()},
	}
	if n := s.excess(plan); n > 0 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n)
	}
	if c.image.Digest != "" && plan.GetConfig() != nil {
		d, err := s.sources.augmentedDigest(ctx, c.image, access, addition.Of(plan.GetConfig()), c.platform)
		if err != nil {
			return nil, err
		}
		plan.Reference = d.String()
	}
	return plan, nil
}

// expiration is when a name that is answered now stops working.
func (s *Service) expiration() *timestamppb.Timestamp {
	return timestamppb.New(s.deps.Now().Add(s.deps.TokenTTL).Truncate(time.Microsecond))
}

// excess is by how many characters a name is longer than engines take.
func (s *Service) excess(p *containerv1.Plan) int {
	return len(s.deps.Host+"/wt/"+p.GetToken()+"/"+p.GetName()) - 255
}

// keep writes the request to SQL, then the plan to Redis.
func (s *Service) keep(ctx context.Context, r *containerv1.ContainerRequest, plan *containerv1.Plan) error {
	rec := record{
		created: s.deps.Now(), expires: plan.GetExpiration().AsTime(), plan: plan, request: withoutSecrets(r),
	}
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		rec.clientIP = ip.String()
	}
	if err := s.charge(ctx, plan.GetIdentity(), recordCost(proto.Size(rec.plan)+proto.Size(rec.request))); err != nil {
		return err
	}
	if err := s.store.insert(ctx, rec); err != nil {
		return s.sqlFault("writing a request", err)
	}
	if err := s.tokens.put(ctx, plan.GetToken(), plan); err != nil {
		s.deps.Log.WarnContext(ctx, "A token was not written to Redis; it will be read from SQL", "err", err)
	}
	return nil
}

// withoutSecrets is what is kept of a request beside its plan.
func withoutSecrets(r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{
		ContainerImage:    r.GetContainerImage(),
		ContainerPlatform: r.GetContainerPlatform(),
		Timestamp:         r.GetTimestamp(),
		Fingerprint:       r.GetFingerprint(),
		WorkflowId:        r.GetWorkflowId(),
		Format:            r.GetFormat(),
		DryRun:            r.GetDryRun(),
		Freeze:            r.GetFreeze(),
		BuildRepository:   r.GetBuildRepository(),
		CacheRepository:   r.GetCacheRepository(),
		NameStrategy:      r.GetNameStrategy(),
		BuildTemplate:     r.GetBuildTemplate(),
	}
}

// targetImage is the name that can be pulled.
func (s *Service) targetImage(p *containerv1.Plan) string {
	if p.GetFrozen() {
		return sourceImage(p)
	}
	return fmt.Sprintf("%s/wt/%s/%s%s", s.deps.Host, p.GetToken(), p.GetName(), oci.Suffix(p.GetReference()))
}

// sourceImage is the fully qualified image behind the name.
func sourceImage(p *containerv1.Plan) string {
	src := p.GetSource()
	name := src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference())
	if p.GetFormat() == formatSif {
		return "oras://" + name
	}
	return name
}

// containerImage is what the name is made of: the image that was asked for, or that
// was built.
func containerImage(p *containerv1.Plan, r *containerv1.ContainerRequest) string {
	if ref, err := oci.ParseReference(r.GetContainerImage()); err == nil {
		return ref.String()
	}
	return sourceImage(p)
}
