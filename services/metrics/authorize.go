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

// Platform identifies the owner of an access token, and names users, workspaces and organisations.
type Platform interface {
	Authorize(context.Context, *platformv1.AuthorizeRequest, ...grpc.CallOption) (*platformv1.AuthorizeResponse, error)
	AuthorizeUsage(context.Context, *platformv1.AuthorizeUsageRequest, ...grpc.CallOption) (*platformv1.AuthorizeUsageResponse, error)
	DescribeNames(context.Context, *platformv1.DescribeNamesRequest, ...grpc.CallOption) (*platformv1.DescribeNamesResponse, error)
}

// authorize returns an error unless the caller may read counts: a metrics account, or the
// platform's administrator.
func (s *Service) authorize(ctx context.Context) error {
	call := rpc.CallFrom(ctx)
	if token := accessToken(call.Authorization); token != "" && s.deps.Platform != nil {
		return s.checkAdministrator(ctx, token, "Only the platform's administrator and metrics accounts (setting metrics_accounts_file) may read counts")
	}
	_, err := s.accounts.Check(ctx, call.Client(), call.Authorization)
	if errors.Is(err, fault.NotFound) {
		err = fault.Unauthenticated.New("Only the platform's administrator may read counts: send the administrator's access token, or have metrics accounts created (setting metrics_accounts_file)", err)
	}
	return err
}

// authorizeAdministrator returns an error unless the caller is an administrator of the platform. Metrics
// accounts are rejected.
func (s *Service) authorizeAdministrator(ctx context.Context) error {
	const refusal = "Only the platform's administrators may see the state of the service"
	token := accessToken(rpc.CallFrom(ctx).Authorization)
	if token == "" || s.deps.Platform == nil {
		return fault.Unauthenticated.Newf("%s: send an administrator's access token", refusal)
	}
	return s.checkAdministrator(ctx, token, refusal)
}

// checkAdministrator returns fault.Denied with a message unless an access token is that of an
// administrator.
func (s *Service) checkAdministrator(ctx context.Context, token, refusal string) error {
	owner, err := s.deps.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: token, Scopes: []string{string(rpc.ScopeFrom(ctx))}})
	if err == nil && !owner.GetAdministrator() {
		err = fault.Denied.Newf("%s", refusal)
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
