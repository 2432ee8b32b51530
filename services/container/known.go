package container

import (
	"context"
	"errors"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// identify lets the caller in, and counts the request against their limit.
func (s *Service) identify(ctx context.Context, claim caller.Claim) (*platformv1.Identity, error) {
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}.Identify(ctx, claim)
	if err != nil {
		return nil, err
	}
	return who, s.charge(ctx, who, 1)
}

// identifyAs lets the caller in, in the workspace of an identity.
func (s *Service) identifyAs(ctx context.Context, like *platformv1.Identity) (*platformv1.Identity, error) {
	return s.identify(ctx, caller.Claim{Endpoint: like.GetEndpoint(), WorkspaceID: like.GetWorkspaceId()})
}

// signedIn is the user whom the Bearer token names.
func (s *Service) signedIn(ctx context.Context) (*platformv1.Identity, error) {
	return caller.Gate{Platform: s.deps.Platform}.Identify(ctx, caller.Claim{})
}

// known is the request that an id stands for, or a key; by its key it is known to the
// user alone who made it.
func (s *Service) known(ctx context.Context, id string) (store.Record, error) {
	var who *platformv1.Identity
	switch {
	case tokens.Is(id):
	case tokens.IsKey(id):
		var err error
		if who, err = s.signedIn(ctx); err != nil {
			return store.Record{}, err
		}
	default:
		return store.Record{}, store.Unknown(nil)
	}
	rec, err := s.store.Get(ctx, id)
	switch {
	case errors.Is(err, fault.NotFound):
		return store.Record{}, err
	case err != nil:
		return store.Record{}, s.sqlFault("reading a request", err)
	case tokens.IsKey(id) && (rec.Plan.GetIdentity() == nil || caller.Of(rec.Plan.GetIdentity()).User() != caller.Of(who).User()):
		return store.Record{}, store.Unknown(errors.New("it is not the caller's"))
	}
	return rec, nil
}

// live reads a request that is neither expired nor revoked; fault.NotFound
// otherwise.
func (s *Service) live(ctx context.Context, id string) (store.Record, error) {
	if !tokens.Is(id) {
		return store.Record{}, store.Unknown(nil)
	}
	rec, err := s.known(ctx, id)
	if err == nil {
		err = rec.Works(s.deps.Now())
	}
	if err != nil {
		return store.Record{}, err
	}
	return rec, nil
}

// given is the request that was answered with a name, whose token is in it.
// fault.NotFound where there is none, or it has ended.
func (s *Service) given(ctx context.Context, field string, image oci.Reference, token string) (store.Record, error) {
	rec, err := s.live(ctx, token)
	if err != nil {
		return store.Record{}, fault.In(field, err)
	}
	switch plan := rec.Plan; {
	case plan.GetFrozen() || image.Repository != "wt/"+token+"/"+plan.GetName() || image.Identifier() != plan.GetReference():
		return store.Record{}, fault.NotFound.Newf("%s: %s is not a name that was answered: give that as it is", field, image)
	case plan.GetFormat() == request.FormatSif:
		return store.Record{}, fault.Invalid.Newf("%s: %s is a Singularity image: it can be pulled, but nothing can be added to it or made of it", field, image)
	}
	return rec, nil
}

// sqlFault says that the database is the one that did not work.
func (s *Service) sqlFault(doing string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.deps.DB.Fault(doing, err)
}
