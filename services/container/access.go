package container

import (
	"context"
	"errors"
	"fmt"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// identify authenticates the caller and counts the request against the caller's limit. The
// caller's token must have the given scopes in addition to the scope of the call.
func (s *Service) identify(ctx context.Context, claim caller.Claim, scopes ...rpc.Scope) (*platformv1.Identity, error) {
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess, Scopes: scopes}.Identify(ctx, claim)
	if err != nil {
		return nil, err
	}
	return who, s.charge(ctx, who, 1)
}

// scopesOf returns the scopes that the caller of a request needs in addition to rpc.ScopeRequest.
func scopesOf(p request.Parsed) []rpc.Scope {
	var out []rpc.Scope
	if request.IsRecipe(p.Raw) || p.IsSif() {
		out = append(out, rpc.ScopeBuild)
	}
	if p.Raw.GetFreeze() || p.Raw.GetKeep() || p.Raw.GetBuildRepository() != "" || p.Raw.GetCacheRepository() != "" {
		out = append(out, rpc.ScopeFreeze)
	}
	return out
}

// identifyAs authenticates the caller in the workspace of an identity.
func (s *Service) identifyAs(ctx context.Context, like *platformv1.Identity) (*platformv1.Identity, error) {
	return s.identify(ctx, caller.Claim{Endpoint: like.GetEndpoint(), WorkspaceID: like.GetWorkspaceId()})
}

// signedIn returns the user of the Bearer token. The identity only has a workspace if the
// token is limited to one. Then the caller may only access requests of that workspace. A caller
// with a token of some repositories may only access requests of such tokens.
func (s *Service) signedIn(ctx context.Context) (*platformv1.Identity, error) {
	return caller.Gate{Platform: s.deps.Platform}.Identify(ctx, caller.Claim{})
}

// find returns the request with an ID, or with a token in its name. For the ID of a kept image it returns a
// request that any client could have made. IDs are public: use
// authorized for calls that give access to the image or change the request.
func (s *Service) find(ctx context.Context, id string) (store.Record, error) {
	if oci.IsKeptID(id) {
		return s.kept(ctx, id)
	}
	if !tokens.Is(id) && !tokens.IsID(id) {
		return store.Record{}, store.Unknown(nil)
	}
	rec, err := s.store.Get(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		err = s.sqlFault("reading a request", err)
	}
	return rec, err
}

// authorized is find for calls that require all rights to the request: the caller must send
// its token, or its ID with the access token of the user who made it. Otherwise it returns
// fault.Unauthenticated or fault.Denied.
func (s *Service) authorized(ctx context.Context, id string) (store.Record, error) {
	rec, err := s.find(ctx, id)
	if err != nil || tokens.Is(id) {
		return rec, err
	}
	who, err := s.bearer(ctx)
	switch {
	case err != nil:
	case who == nil:
		err = fault.Unauthenticated.Newf("The id of a request gives no access to its image; send the token in the image name instead, " +
			"or the access token of the user who made the request as Authorization: Bearer")
	case !isOwner(rec, who):
		err = fault.Denied.Newf("The request was made by another user, or without an access token; send the token in the image name instead of the id")
	}
	return rec, err
}

// bearer is signedIn, but returns nil without a Bearer token.
func (s *Service) bearer(ctx context.Context) (*platformv1.Identity, error) {
	return caller.Gate{Platform: s.deps.Platform, Anonymous: true}.Identify(ctx, caller.Claim{})
}

// isOwner reports whether who made a request. who is an identity that signedIn or bearer
// returned; nil made no request.
func isOwner(rec store.Record, who *platformv1.Identity) bool {
	owner, by := caller.Of(rec.Plan.GetIdentity()), caller.Of(who)
	return !by.IsAnonymous() && by.User() == owner.User() &&
		(by.WorkspaceID == 0 || by.WorkspaceID == owner.WorkspaceID) && (by.Repositories == "" || by.Repositories == owner.Repositories)
}

// live returns the request with a token in its name, or a kept image, if it is neither expired nor revoked;
// fault.NotFound otherwise.
func (s *Service) live(ctx context.Context, token string) (store.Record, error) {
	if !tokens.Is(token) && !oci.IsKeptID(token) {
		return store.Record{}, store.Unknown(nil)
	}
	rec, err := s.find(ctx, token)
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if err != nil {
		return store.Record{}, err
	}
	return rec, nil
}

// issued returns the request whose name has the token. It returns fault.NotFound for an
// unknown, expired or revoked name, fault.Invalid for a Singularity image, and fault.Denied if
// the access token of a caller who may not use the image.
func (s *Service) issued(ctx context.Context, who *platformv1.Identity, field string, image oci.Reference, token string) (store.Record, error) {
	rec, err := s.issuedAny(ctx, who, field, image, token)
	if err == nil && rec.Plan.GetFormat() == request.FormatSif {
		return store.Record{}, fault.Invalid.Newf("%s: %s is a Singularity image, to which nothing can be added; build from it with a definition file (Bootstrap: localimage)", field, image)
	}
	return rec, err
}

// issuedAny is issued, for Singularity images as well.
func (s *Service) issuedAny(ctx context.Context, who *platformv1.Identity, field string, image oci.Reference, token string) (store.Record, error) {
	rec, err := s.live(ctx, token)
	if err != nil {
		return store.Record{}, fault.In(field, err)
	}
	if plan := rec.Plan; plan.GetFrozen() || image.Repository != issuedName(plan).String() || image.Identifier() != plan.GetReference() {
		return store.Record{}, fault.NotFound.Newf("%s: %s is not an image name that this server issued; use the name exactly as the server returned it", field, image)
	}
	if err := s.deps.Keychain.CheckPlan(caller.Of(who), field, rec.Plan); err != nil {
		return rec, err
	}
	return rec, s.checkIssued(ctx, field, rec.Plan)
}

// checkImage returns fault.Invalid if an issued name is that of an environment without an image, which is only mounted.
func checkImage(field string, image oci.Reference, plan *containerv1.Plan) error {
	if plan.GetFormat() == request.FormatEnvironment {
		return fault.Invalid.Newf("%s: %s is an environment without an image, on which nothing can be built; request an image of its packages", field, image)
	}
	return nil
}

// sqlFault returns a fault that names the database as the cause.
func (s *Service) sqlFault(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.deps.DB.Fault(doing, err)
}
