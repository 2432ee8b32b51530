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

// Platform says whose an access token is.
type Platform interface {
	Authorize(context.Context, *platformv1.AuthorizeRequest, ...grpc.CallOption) (*platformv1.AuthorizeResponse, error)
}

// admit lets those in who may read counts: metrics accounts, and the platform's
// administrator.
func (s *Service) admit(ctx context.Context) error {
	call := rpc.CallFrom(ctx)
	if token := accessToken(call.Authorization); token != "" && s.deps.Platform != nil {
		who, err := s.deps.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: token})
		if err == nil && !who.GetAdministrator() {
			err = fault.Denied.Newf("Counts are shown to the platform's administrator, and to metrics accounts (setting metrics_accounts_file)")
		}
		return err
	}
	_, err := s.accounts.Check(ctx, call.Client(), call.Authorization)
	if errors.Is(err, fault.NotFound) {
		err = fault.Unauthenticated.New("Counts are shown to the platform's administrator: give the administrator's access token, or have metrics accounts made (setting metrics_accounts_file)", err)
	}
	return err
}

// accessToken is the token of an Authorization header: Bearer, or the password of
// HTTP basic where it has the form of one
// (gateway/contract/platform.md#access-tokens). "" is none.
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
