package container

import (
	"cmp"
	"context"
	"errors"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// NameContainer returns a new name for the result of an earlier request or build
// (gateway/contract/container-service.md#fresh-names). It gives no access that a new
// request would not give.
func (s *Service) NameContainer(ctx context.Context, req *containerv1.NameContainerRequest) (*containerv1.NameContainerResponse, error) {
	named, err := s.named(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	plan := named.Plan
	if err := s.nameKept(ctx, plan); err != nil {
		return nil, err
	}
	plan.Token, plan.Expiration = tokens.New(), s.expiration()
	if n := s.excess(plan); n > 0 && !plan.GetFrozen() {
		return nil, fault.Invalid.Newf("The name of the image is %d characters too long to be served", n)
	}
	if err := s.extendLayers(ctx, plan); err != nil {
		return nil, err
	}
	if err := s.persist(ctx, named.Request, plan); err != nil {
		return nil, err
	}
	out := s.response(submissionOf(plan, named.Request))
	return &containerv1.NameContainerResponse{
		RequestId: out.RequestId, ContainerToken: out.ContainerToken, TargetImage: out.TargetImage, Expiration: out.Expiration,
		ContainerImage: out.ContainerImage, BuildId: out.BuildId, Freeze: out.Freeze, Succeeded: out.Succeeded,
	}, nil
}

// errAdditionGone is returned for an expired anonymous request with additions. They may be
// secret, and the valid name was the only proof of access.
var errAdditionGone = fault.NotFound.Newf("The name has expired. The additions of an anonymous request expire with its name: make the request again")

// named returns the request with an ID or, for the ID of a build, a request for its image, if
// the caller may currently read the image.
func (s *Service) named(ctx context.Context, id string) (store.Record, error) {
	if tokens.Is(id) || tokens.IsID(id) {
		return s.requestedBefore(ctx, id)
	}
	plan, err := s.builtBefore(ctx, id)
	return store.Record{Plan: plan, Request: &containerv1.ContainerRequest{}}, err
}

// requestedBefore returns an earlier request for a caller who has the right to its image:
// the user who made it or, if it is anonymous, any client that has its token. The additions
// of an anonymous request may be secret, and so expire with the token.
func (s *Service) requestedBefore(ctx context.Context, id string) (store.Record, error) {
	rec, err := s.authorized(ctx, id)
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
	if owner != nil && !isOwner(rec, who) {
		return rec, fault.Denied.Newf("The request was made by a user, and a fresh name is for that user alone")
	}
	if owner != nil { // the image stays restricted to the repositories of the token that requested it
		who.Repositories = owner.GetRepositories()
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

// builtBefore returns the plan for a build that has succeeded or is running, without
// additions.
func (s *Service) builtBefore(ctx context.Context, id string) (*containerv1.Plan, error) {
	b, err := s.locate(ctx, id)
	if err != nil {
		return nil, err
	}
	var owner *platformv1.Identity
	if b.GetScope() != "" { // the caller must be a member of its workspace
		owner = b.GetIdentity()
	}
	who, err := s.identifyAs(ctx, owner)
	if err != nil {
		return nil, err
	}
	if err := checkScope(b, who); err != nil {
		return nil, err
	}
	if b.GetAdded() && who == nil {
		return nil, fault.Denied.Newf("The image holds what a request without a user added; send the token in the name of that request instead of the id of the build")
	}
	if err := s.authorizeInputs(ctx, id, b, who); err != nil {
		return nil, err
	}
	t := b.GetTarget()
	plan := &containerv1.Plan{
		Source: &containerv1.Source{Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: cmp.Or(t.GetTag(), t.GetDigest())},
		Name:   t.GetRepository(), Reference: cmp.Or(t.GetTag(), t.GetDigest()), Platform: b.GetPlatform(), Identity: who,
		BuildId: id, Built: b.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED, Frozen: b.GetFrozen(), Mirror: b.GetMirror(),
	}
	plan.Format = request.FormatOf(b.GetFormat())
	return plan, s.checkExists(ctx, plan)
}

// authorizeInputs checks that a caller who knows the ID of a build may use its inputs. Usually
// any client can: it could also request the recipe of a shared build, which is public. But a
// build with files of a request, or with an image named by its token, is only for the users
// who requested it.
func (s *Service) authorizeInputs(ctx context.Context, id string, b *buildv1.LocateBuildResponse, who *platformv1.Identity) error {
	if !b.GetPrivateInputs() || b.GetScope() != "" && who != nil {
		return nil
	}
	if who != nil {
		requested, err := s.store.HasRequested(ctx, id, who)
		if err != nil {
			return s.sqlFault("looking for a user's requests of a build", err)
		}
		if requested {
			return nil
		}
	}
	return fault.Denied.Newf("The image holds files that were sent with a request, or an image that was named by its token; send the token in the name of " +
		"that request instead of the id of the build, or the access token of a user who made it")
}

// nameKept puts the permanent name of a kept image into its plan. An image that only organisations keep has no public
// name. It returns fault.NotFound if the name was deleted.
func (s *Service) nameKept(ctx context.Context, plan *containerv1.Plan) error {
	src := plan.GetSource()
	if !oci.IsKeptRepository(src.GetRepository()) || !s.deps.owns(src.GetRegistry(), src.GetRepository()) || plan.GetConfig() != nil {
		return nil
	}
	content, _, _ := strings.Cut(plan.GetBuildId(), "_")
	id := cmp.Or(plan.GetKeptId(), content)
	if _, err := s.keptImage(ctx, id); plan.GetKeptId() == "" && errors.Is(err, fault.NotFound) {
		return nil
	}
	k, err := s.workingKept(ctx, id)
	if err != nil {
		return err
	}
	plan.KeptId, plan.Name, plan.Reference = id, k.Name, k.Tag
	return nil
}
