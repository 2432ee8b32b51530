package inspect

import (
	"context"
	"errors"
	"strings"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// ValidateCredentials says whether a registry accepts a login.
func (s *Service) ValidateCredentials(ctx context.Context, req *inspectv1.ValidateCredentialsRequest) (*inspectv1.ValidateCredentialsResponse, error) {
	l := req.GetLogin()
	for _, f := range []struct{ name, value string }{
		{"userName", l.GetUserName()}, {"password", l.GetPassword()}, {"registry", l.GetRegistry()},
	} {
		if f.value == "" {
			return nil, fault.Invalid.Newf("%s is missing", f.name)
		}
	}
	host, err := registryHost(l.GetRegistry())
	if err != nil {
		return nil, err
	}
	if _, err := s.deps.Limiter.Charge(ctx, "pulls", rpc.CallFrom(ctx).Client(), s.deps.PullsAnonymous, 1); err != nil {
		return nil, err
	}
	err = s.deps.Upstream.Ping(ctx, host, upstream.Login{Username: l.GetUserName(), Password: l.GetPassword()})
	switch {
	case err == nil:
		return &inspectv1.ValidateCredentialsResponse{Valid: true}, nil
	case errors.Is(err, fault.Unauthenticated), errors.Is(err, fault.Denied):
		return &inspectv1.ValidateCredentialsResponse{Valid: false}, nil
	}
	return nil, err
}

// registryHost reads a host as image names have it; the forms that docker writes
// into its configuration are understood.
func registryHost(s string) (string, error) {
	host, _, _ := strings.Cut(oci.LoginKey(s), "/")
	ref, err := oci.ParseReference(host + "/any/image")
	if err != nil || ref.Registry != host {
		return "", fault.Invalid.New("registry must be a host such as quay.io", err)
	}
	return host, nil
}
