package metrics

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"google.golang.org/grpc"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// Platform returns the owner of an access token.
type Platform interface {
	Authorize(context.Context, *platformv1.AuthorizeRequest, ...grpc.CallOption) (*platformv1.AuthorizeResponse, error)
}

// authorize returns an error unless the caller may read counts: a metrics account, or the
// platform's administrator.
func (s *Service) authorize(ctx context.Context) error {
	call := rpc.CallFrom(ctx)
	if token := accessToken(call.Authorization); token != "" && s.deps.Platform != nil {
		owner, err := s.deps.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: token, Scopes: []string{string(rpc.ScopeFrom(ctx))}})
		if err == nil && !owner.GetAdministrator() {
			err = fault.Denied.Newf("Only the platform's administrator and metrics accounts (setting metrics_accounts_file) may read counts")
		}
		return err
	}
	_, err := s.accounts.Check(ctx, call.Client(), call.Authorization)
	if errors.Is(err, fault.NotFound) {
		err = fault.Unauthenticated.New("Only the platform's administrator may read counts: send the administrator's access token, or have metrics accounts created (setting metrics_accounts_file)", err)
	}
	return err
}

// accessToken returns the access token of an Authorization header: a bearer token, or the
// password of HTTP basic authentication if it has the form of an access token
// (gateway/contract/platform.md#access-tokens). It returns "" for any other header.
func accessToken(header string) string {
	scheme, value, _ := strings.Cut(header, " ")
	value = strings.TrimSpace(value)
	if strings.EqualFold(scheme, "Bearer") {
		return value
	}
	login, err := base64.StdEncoding.DecodeString(value)
	_, password, _ := strings.Cut(string(login), ":")
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return ""
	}
	if token, err := base64.StdEncoding.DecodeString(password); err == nil && strings.HasPrefix(string(token), `{"tid":`) {
		return password
	}
	return ""
}
