package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// NameContainer returns a fresh name for what an earlier request or a build has made
// one for (gateway/contract/container-service.md#fresh-names). Nobody reads by it what
// they could not have asked for anew.
func (s *Service) NameContainer(ctx context.Context, req *containerv1.NameContainerRequest) (*containerv1.NameContainerResponse, error) {
	named, err := s.named(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	plan := named.Plan
	plan.Token, plan.Expiration = tokens.New(), s.expiration()
	if n := s.excess(plan); n > 0 && !plan.GetFrozen() {
		return nil, fault.Invalid.Newf("The name of the image is %d characters too long to be served", n)
	}
	if err := s.extendLayers(ctx, plan); err != nil {
		return nil, err
	}
	if err := s.keep(ctx, named.Request, plan); err != nil {
		return nil, err
	}
	out := &containerv1.NameContainerResponse{
		RequestId: proto.String(plan.GetToken()), TargetImage: proto.String(s.targetImage(plan)),
		ContainerImage: proto.String(containerImage(plan, named.Request)),
		BuildId:        rpc.Optional(plan.GetBuildId()), Freeze: proto.Bool(plan.GetFrozen()),
	}
	if !plan.GetFrozen() {
		out.ContainerToken, out.Expiration = proto.String(plan.GetToken()), plan.GetExpiration()
	}
	if plan.GetBuildId() == "" || plan.GetBuilt() {
		out.Succeeded = proto.Bool(true)
	}
	return out, nil
}

// errAdditionGone: it may be secret, and the name was the password for it.
var errAdditionGone = fault.NotFound.Newf("The name has expired, and with it what a request without a user adds to an image: make the request again")

// named is what an id stands for, as its caller may have it now.
func (s *Service) named(ctx context.Context, id string) (store.Record, error) {
	if tokens.Is(id) || tokens.IsKey(id) {
		return s.requestedBefore(ctx, id)
	}
	plan, err := s.builtBefore(ctx, id)
	return store.Record{Plan: plan, Request: &containerv1.ContainerRequest{}}, err
}

// requestedBefore is an earlier request, for whoever made it. One without a user is
// for everybody who knows its id; but what it adds to its image may be secret, and
// the name is a password with an end: once that has come nobody gets it again.
func (s *Service) requestedBefore(ctx context.Context, id string) (store.Record, error) {
	rec, err := s.known(ctx, id)
	switch {
	case err != nil:
		return rec, err
	case !rec.Revoked.IsZero():
		return rec, fault.NotFound.Newf("The request was revoked: make it again to get another name")
	}
	owner := rec.Plan.GetIdentity()
	who, err := s.identifyAs(ctx, owner)
	if err != nil {
		return rec, err
	}
	if owner != nil && caller.Of(who) != caller.Of(owner) {
		return rec, fault.Denied.Newf("The request was made by a user, and a fresh name is for that user alone")
	}
	if owner == nil && rec.Plan.GetConfig() != nil && rec.Expires.Before(s.deps.Now()) {
		return rec, errAdditionGone
	}
	rec.Plan.Identity = who
	b, err := s.reread(ctx, rec.Plan)
	if err == nil {
		err = s.rereadIncluded(ctx, "containerIncludes", rec.Plan.GetConfig().GetLayers(), who)
	}
	if err == nil && owner == nil && b.GetAdded() && rec.Expires.Before(s.deps.Now()) {
		err = errAdditionGone
	}
	return rec, err
}

// builtBefore is what a build has made, or is making, without anything added.
func (s *Service) builtBefore(ctx context.Context, id string) (*containerv1.Plan, error) {
	b, err := s.locate(ctx, id)
	if err != nil {
		return nil, err
	}
	var owner *platformv1.Identity
	if b.GetScope() != "" { // it knows the workspace, which only its members may claim
		owner = b.GetIdentity()
	}
	who, err := s.identifyAs(ctx, owner)
	if err != nil {
		return nil, err
	}
	if err := mayHave(b, who); err != nil {
		return nil, err
	}
	if b.GetAdded() && who == nil {
		return nil, fault.Denied.Newf("The image holds what a request without a user added: it is named by that request's id alone")
	}
	t := b.GetTarget()
	plan := &containerv1.Plan{
		Source: &containerv1.Source{Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: t.GetTag()},
		Name:   t.GetRepository(), Reference: t.GetTag(), Platform: b.GetPlatform(), Identity: who,
		BuildId: id, Built: b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED, Frozen: b.GetFrozen(),
	}
	if b.GetFormat() == request.FormatSif {
		plan.Format = request.FormatSif
	}
	return plan, s.stillThere(ctx, plan)
}
