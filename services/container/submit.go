package container

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// SubmitContainer answers a name for what the request describes.
func (s *Service) SubmitContainer(ctx context.Context, req *containerv1.SubmitContainerRequest) (*containerv1.SubmitContainerResponse, error) {
	plan, err := s.submit(ctx, req.GetRequest(), false)
	if err != nil {
		return nil, err
	}
	return &containerv1.SubmitContainerResponse{
		RequestId:      proto.String(plan.GetToken()),
		ContainerToken: proto.String(plan.GetToken()),
		TargetImage:    proto.String(s.targetImage(plan)),
		Expiration:     plan.GetExpiration(),
		ContainerImage: proto.String(sourceImage(plan)),
		Freeze:         proto.Bool(false),
		Mirror:         proto.Bool(false),
		Succeeded:      proto.Bool(true),
	}, nil
}

// SubmitContainerToken is the deprecated form, with a shorter answer.
func (s *Service) SubmitContainerToken(ctx context.Context, req *containerv1.SubmitContainerTokenRequest) (*containerv1.SubmitContainerTokenResponse, error) {
	plan, err := s.submit(ctx, req.GetRequest(), true)
	if err != nil {
		return nil, err
	}
	return &containerv1.SubmitContainerTokenResponse{
		ContainerToken: proto.String(plan.GetToken()),
		TargetImage:    proto.String(s.targetImage(plan)),
		Expiration:     plan.GetExpiration(),
		RequestId:      proto.String(plan.GetToken()),
		ContainerImage: proto.String(sourceImage(plan)),
	}, nil
}

// submit applies every rule and writes the request down.
func (s *Service) submit(ctx context.Context, r *containerv1.ContainerRequest, deprecated bool) (*containerv1.Plan, error) {
	if r == nil {
		r = &containerv1.ContainerRequest{}
	}
	var who *platformv1.Identity
	c, err := check(r, deprecated, func(claim caller.Claim) (err error) {
		who, err = s.gate().Identify(ctx, claim)
		return err
	})
	if err != nil {
		return nil, err
	}
	data, err := s.checkLayers(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := switchedOff(r); err != nil {
		return nil, err
	}
	plan, err := s.plan(ctx, c, who)
	if err != nil {
		return nil, err
	}
	return plan, s.keep(ctx, r, plan, data)
}

func (s *Service) gate() caller.Gate {
	return caller.Gate{Platform: s.deps.Platform, Endpoints: s.deps.PlatformEndpoints, Anonymous: s.deps.AnonymousAccess}
}

// switchedOff is rule 12.
func switchedOff(r *containerv1.ContainerRequest) error {
	if isRecipe(r) {
		return fault.Unsupported.Newf("This service does not build images: give an existing one as containerImage")
	}
	if r.GetFreeze() {
		return fault.Unsupported.Newf("This service does not freeze images: leave freeze out, and pull the name that is answered")
	}
	return nil
}

// plan looks the image up and says what the registry will serve.
func (s *Service) plan(ctx context.Context, c checked, who *platformv1.Identity) (*containerv1.Plan, error) {
	resolved, access, err := s.sources.resolve(ctx, caller.Of(who), c.image)
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
		Expiration: timestamppb.New(s.deps.Now().Add(s.deps.TokenTTL).Truncate(time.Microsecond)),
		Digests:    []string{resolved.String()},
	}
	if n := len(s.deps.Host + "/wt/" + plan.GetToken() + "/" + plan.GetName()); n > 255 {
		return nil, fault.Invalid.Newf("containerImage: the name of the image is %d characters too long to be served", n-255)
	}
	if c.image.Digest != "" && plan.GetConfig() != nil {
		d, err := s.sources.augmentedDigest(ctx, c.image, access, addition(plan.GetConfig()), c.platform)
		if err != nil {
			return nil, err
		}
		plan.Reference = d.String()
	}
	return plan, nil
}

// keep writes layers and request to SQL, then the plan to Redis.
func (s *Service) keep(ctx context.Context, r *containerv1.ContainerRequest, plan *containerv1.Plan, data map[string][]byte) error {
	expires := plan.GetExpiration().AsTime()
	if err := s.keepLayers(ctx, data, expires); err != nil {
		return err
	}
	rec := record{
		created: s.deps.Now(), expires: expires, plan: plan, request: withoutSecrets(r),
	}
	if ip := rpc.CallFrom(ctx).ClientIP; ip.IsValid() {
		rec.clientIP = ip.String()
	}
	if err := s.store.insert(ctx, rec); err != nil {
		return s.sqlFault("writing a request", err)
	}
	if err := s.tokens.put(ctx, plan); err != nil {
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
	}
}

// targetImage is the name that can be pulled.
func (s *Service) targetImage(p *containerv1.Plan) string {
	return fmt.Sprintf("%s/wt/%s/%s%s", s.deps.Host, p.GetToken(), p.GetName(), oci.Suffix(p.GetReference()))
}

// sourceImage is the fully qualified image behind the name.
func sourceImage(p *containerv1.Plan) string {
	src := p.GetSource()
	return src.GetRegistry() + "/" + src.GetRepository() + oci.Suffix(src.GetReference())
}
