package inspect

import (
	"context"
	"errors"
	"strings"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// ValidateCredentials reports whether a registry accepts a login. Each call is charged as a pull,
// so that passwords cannot be guessed.
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
	if err := s.charge(ctx, caller.ID{}, 1); err != nil {
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

// registryHost returns the host of a registry in the form of image names. It also accepts the
// forms that docker writes to its configuration file.
func registryHost(s string) (string, error) {
	host, _, _ := strings.Cut(oci.LoginKey(s), "/")
	ref, err := oci.ParseReference(host + "/any/image")
	if err != nil || ref.Registry != host {
		return "", fault.Invalid.New("registry must be a host such as quay.io", err)
	}
	return host, nil
}
