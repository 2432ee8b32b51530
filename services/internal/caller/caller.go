// Package caller knows who asks: it reads the identity that a request claims,
// lets the platform confirm it (Gate), and finds the registry login that goes
// with it (Keychain). It stores nothing; logins are kept in memory for a minute.
package caller

import (
	"context"
	"errors"
	"strconv"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// ID tells callers apart, everywhere: in limits, caches and scopes. The zero
// value is anonymous.
type ID struct {
	Endpoint            string
	UserID, WorkspaceID int64
}

// Of is the ID of an identity; nil is anonymous.
func Of(id *platformv1.Identity) ID {
	return ID{id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId()}
}

// IsAnonymous says whether nobody is known.
func (c ID) IsAnonymous() bool { return c == ID{} }

// User is the caller without the workspace, as limits count them.
func (c ID) User() string { return strconv.FormatInt(c.UserID, 10) + "@" + c.Endpoint }

// String is the caller as a cache key; "" is anonymous.
func (c ID) String() string {
	if c.IsAnonymous() {
		return ""
	}
	return strconv.FormatInt(c.WorkspaceID, 10) + "/" + c.User()
}

// Fields are the identity fields of a request body, each under two names.
type Fields interface {
	GetPlatformAccessToken() string
	GetTowerAccessToken() string
	GetPlatformRefreshToken() string
	GetTowerRefreshToken() string
	GetPlatformEndpoint() string
	GetTowerEndpoint() string
	GetPlatformWorkspaceId() int64
	GetTowerWorkspaceId() int64
}

// Claim is the identity that a request claims.
type Claim struct {
	Token, Refresh, Endpoint string
	WorkspaceID              int64
}

// ReadClaim merges the two names of each field. fault.Invalid when both are
// given and differ.
func ReadClaim(f Fields) (Claim, error) {
	token, err1 := either("platformAccessToken", f.GetPlatformAccessToken(), "towerAccessToken", f.GetTowerAccessToken())
	refresh, err2 := either("platformRefreshToken", f.GetPlatformRefreshToken(), "towerRefreshToken", f.GetTowerRefreshToken())
	endpoint, err3 := either("platformEndpoint", f.GetPlatformEndpoint(), "towerEndpoint", f.GetTowerEndpoint())
	workspace, err4 := either("platformWorkspaceId", f.GetPlatformWorkspaceId(), "towerWorkspaceId", f.GetTowerWorkspaceId())
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return Claim{}, err
		}
	}
	if len(token) > limits.Secret || len(refresh) > limits.Secret {
		return Claim{}, fault.Invalid.Newf("platformAccessToken and platformRefreshToken are at most %d characters long", limits.Secret)
	}
	if len(endpoint) > limits.URL {
		return Claim{}, fault.Invalid.Newf("platformEndpoint is at most %d characters long", limits.URL)
	}
	if workspace < 0 {
		return Claim{}, fault.Invalid.Newf("platformWorkspaceId must not be negative")
	}
	return Claim{token, refresh, endpoint, workspace}, nil
}

func either[T comparable](name1 string, v1 T, name2 string, v2 T) (T, error) {
	var zero T
	if v1 == zero {
		return v2, nil
	}
	if v2 != zero && v1 != v2 {
		return zero, fault.Invalid.Newf("%s and %s are two names of one field and must not differ", name1, name2)
	}
	return v1, nil
}

// Gate lets callers in.
type Gate struct {
	Platform platformv1.PlatformServiceClient
	// Anonymous says whether callers without a token are let in.
	Anonymous bool
}

// Administrator lets in only the platform's administrator, whom the call's Bearer token
// names; to others fault.Denied says refusal.
func (g Gate) Administrator(ctx context.Context, refusal string) error {
	t, ok := bearer(rpc.CallFrom(ctx).Authorization)
	if !ok {
		return fault.Unauthenticated.Newf("%s: send their access token as Authorization: Bearer", refusal)
	}
	resp, err := g.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: t})
	if err == nil && !resp.GetAdministrator() {
		return fault.Denied.Newf("%s", refusal)
	}
	return err
}

// Identify confirms a claim; nil is an anonymous caller. A Bearer token in the
// call's Authorization header wins over the claim's. fault.Invalid for a
// platform that is not believed, fault.Unauthenticated for a token that the
// platform refuses.
func (g Gate) Identify(ctx context.Context, c Claim) (*platformv1.Identity, error) {
	if t, ok := bearer(rpc.CallFrom(ctx).Authorization); ok {
		c.Token = t
	}
	if c.Token == "" {
		if !g.Anonymous {
			return nil, fault.Unauthenticated.Newf("This service wants an access token: set platformAccessToken in the body, or send it as Authorization: Bearer")
		}
		return nil, nil
	}
	resp, err := g.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{
		AccessToken: c.Token, RefreshToken: c.Refresh, Endpoint: c.Endpoint, WorkspaceId: c.WorkspaceID,
	})
	if errors.Is(err, fault.Denied) {
		e, _ := fault.As(err)
		return nil, fault.Unauthenticated.New(e.Public, err)
	}
	if err != nil {
		return nil, err
	}
	return resp.GetIdentity(), nil
}

func bearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "Bearer") && token != ""
}
