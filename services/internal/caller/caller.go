// Package caller identifies callers and finds their registry logins. Claim is the identity
// that a request claims, Gate verifies it with the platform service, and Keychain returns
// the login of a caller for a repository. Logins are cached in memory for up to a minute
// and not stored.
package caller

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// An ID identifies a caller in limits, caches and scopes. The zero value is anonymous.
type ID struct {
	Endpoint            string
	UserID, WorkspaceID int64
	// RobotOrgID is the organisation of a robot; 0 for a user.
	RobotOrgID int64
	// OrganizationID is the organisation of the workspace, or of a robot; 0 if neither is known.
	OrganizationID int64
	// Repositories are those that the access token is restricted to, separated by spaces; "" for
	// all. Use CheckRepository.
	Repositories string
}

// Of returns the ID of an identity. A nil identity is anonymous.
func Of(id *platformv1.Identity) ID {
	// Identities of robots that earlier releases have stored have no organisation of their own.
	return ID{id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId(), id.GetRobotOrgId(), cmp.Or(id.GetOrganizationId(), id.GetRobotOrgId()), strings.Join(id.GetRepositories(), " ")}
}

// IsAnonymous reports whether the caller is anonymous.
func (c ID) IsAnonymous() bool { return c == ID{} }

// User returns the user or robot without the workspace.
func (c ID) User() string { return strconv.FormatInt(c.UserID, 10) + "@" + c.Endpoint }

// Client returns the client that a call is charged to: the user, the organisation of a robot, or
// the call's address if the caller is anonymous.
func (c ID) Client(ctx context.Context) fairshare.Client {
	if c.IsAnonymous() {
		return rpc.CallFrom(ctx).Address()
	}
	if c.RobotOrgID != 0 {
		return fairshare.User("organization/" + strconv.FormatInt(c.RobotOrgID, 10) + "@" + c.Endpoint)
	}
	return fairshare.User(c.User())
}

// Charged returns what a call is charged to: the client, and the subjects whose limits apply.
func (c ID) Charged(ctx context.Context) ratelimit.Caller {
	return ratelimit.Caller{Client: c.Client(ctx), Endpoint: c.Endpoint, UserID: c.UserID, WorkspaceID: c.WorkspaceID, OrganizationID: c.OrganizationID}
}

// String returns the caller as a cache key, or "" if it is anonymous. Tokens of different
// repositories have different keys, so that none of them is served from the cache of another.
func (c ID) String() string {
	if c.IsAnonymous() {
		return ""
	}
	name := strconv.FormatInt(c.WorkspaceID, 10) + "/" + c.User()
	if c.Repositories != "" {
		name += " " + c.Restriction()
	}
	return name
}

// Fields are the identity fields of a request body. Each field has two names.
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

// A Claim is the identity that a request claims.
type Claim struct {
	Token, Refresh, Endpoint string
	WorkspaceID              int64
}

// ReadClaim returns the claim in a request body. It returns fault.Invalid if the two names
// of a field have different values.
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

// A Gate verifies the identity of callers.
type Gate struct {
	Platform platformv1.AccessServiceClient
	// Anonymous states whether callers without a token are accepted.
	Anonymous bool
	// Scopes are the scopes that the token needs in addition to the scope of the call.
	Scopes []rpc.Scope
}

// scopes returns the scopes that the token needs. If the rule of the call has no scope, the
// list contains "", which no token with scopes has.
func (g Gate) scopes(ctx context.Context) []string {
	out := []string{string(rpc.ScopeFrom(ctx))}
	for _, s := range g.Scopes {
		out = append(out, string(s))
	}
	return out
}

// Administrator returns nil if the call's Bearer token belongs to an administrator of the
// platform. Otherwise it returns fault.Denied with the message refusal, or
// fault.Unauthenticated if the call has no token.
func (g Gate) Administrator(ctx context.Context, refusal string) error {
	t, ok := bearer(rpc.CallFrom(ctx).Authorization)
	if !ok {
		return fault.Unauthenticated.Newf("%s: send their access token as Authorization: Bearer", refusal)
	}
	resp, err := g.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: t, Scopes: g.scopes(ctx)})
	if err == nil && !resp.GetAdministrator() {
		return fault.Denied.Newf("%s", refusal)
	}
	return err
}

// Identify returns the verified identity of a claim, or nil for an anonymous caller. A
// Bearer token in the call's Authorization header takes precedence over the claim's token.
// Identify returns fault.Invalid if the claimed platform is not trusted,
// fault.Unauthenticated if the platform rejects the token, and fault.Denied with the code
// fault.TokenScope if the token lacks a scope.
func (g Gate) Identify(ctx context.Context, c Claim) (*platformv1.Identity, error) {
	if t, ok := bearer(rpc.CallFrom(ctx).Authorization); ok {
		c.Token = t
	}
	if c.Token == "" {
		if !g.Anonymous {
			return nil, fault.Unauthenticated.Newf("This service requires an access token: set platformAccessToken in the body, or send it as Authorization: Bearer")
		}
		return nil, nil
	}
	resp, err := g.Platform.Authorize(ctx, &platformv1.AuthorizeRequest{
		AccessToken: c.Token, RefreshToken: c.Refresh, Endpoint: c.Endpoint, WorkspaceId: c.WorkspaceID, Scopes: g.scopes(ctx),
	})
	if e, ok := fault.As(err); ok && e.Kind == fault.Denied && e.Code != fault.TokenScope {
		return nil, e.To(fault.Unauthenticated)
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
