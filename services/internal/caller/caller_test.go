package caller_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

func TestID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name       string
		in         *platformv1.Identity
		text, user string
		anonymous  bool
	}{
		{"no identity", nil, "", "0@", true},
		{"an empty identity", &platformv1.Identity{}, "", "0@", true},
		{"a user", &platformv1.Identity{Endpoint: "https://p", UserId: 7, UserName: "ada"}, "0/7@https://p", "7@https://p", false},
		{"in a workspace", &platformv1.Identity{Endpoint: "https://p", UserId: 7, WorkspaceId: 3}, "3/7@https://p", "7@https://p", false},
		{"another platform", &platformv1.Identity{Endpoint: "https://q", UserId: 7}, "0/7@https://q", "7@https://q", false},
	} {
		id := caller.Of(tc.in)
		if id.String() != tc.text || id.User() != tc.user || id.IsAnonymous() != tc.anonymous {
			t.Errorf("%s: got %q, %q, %v", tc.name, id.String(), id.User(), id.IsAnonymous())
		}
	}
}

func TestReadClaim(t *testing.T) {
	t.Parallel()
	type request = containerv1.ContainerRequest
	for _, tc := range []struct {
		name string
		in   *request
		want caller.Claim
		err  error
	}{
		{"no fields", &request{}, caller.Claim{}, nil},
		{"new names", &request{PlatformAccessToken: "t", PlatformEndpoint: "e", PlatformWorkspaceId: new(int64(3))}, caller.Claim{Token: "t", Endpoint: "e", WorkspaceID: 3}, nil},
		{"old names", &request{TowerAccessToken: "t", TowerEndpoint: "e", TowerWorkspaceId: new(int64(3))}, caller.Claim{Token: "t", Endpoint: "e", WorkspaceID: 3}, nil},
		{"both, the same", &request{TowerAccessToken: "t", PlatformAccessToken: "t"}, caller.Claim{Token: "t"}, nil},
		{"a refresh token", &request{PlatformRefreshToken: "r"}, caller.Claim{Refresh: "r"}, nil},
		{"two tokens", &request{TowerAccessToken: "t", PlatformAccessToken: "u"}, caller.Claim{}, fault.Invalid},
		{"two refresh tokens", &request{TowerRefreshToken: "t", PlatformRefreshToken: "u"}, caller.Claim{}, fault.Invalid},
		{"two endpoints", &request{TowerEndpoint: "t", PlatformEndpoint: "u"}, caller.Claim{}, fault.Invalid},
		{"two workspaces", &request{TowerWorkspaceId: new(int64(1)), PlatformWorkspaceId: new(int64(2))}, caller.Claim{}, fault.Invalid},
		{"a negative workspace", &request{TowerWorkspaceId: new(int64(-1))}, caller.Claim{}, fault.Invalid},
	} {
		got, err := caller.ReadClaim(tc.in)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: got %+v, %v", tc.name, got, err)
		}
	}
}

// A platform is a platform service that knows the token "good" and its owner's login for
// quay.io. It records its calls.
type platform struct {
	platformv1.AccessServiceClient
	authorized []*platformv1.AuthorizeRequest
	lookups    []*platformv1.GetCredentialsRequest
	err        error
	// during is called by GetCredentials.
	during func()
}

var adaIdentity = &platformv1.Identity{Endpoint: "https://p", UserId: 7, UserName: "ada"}

func (p *platform) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	p.authorized = append(p.authorized, req)
	switch {
	case p.err != nil:
		return nil, p.err
	case req.GetEndpoint() == "https://evil":
		return nil, fault.Invalid.Newf("That platform is not trusted")
	case req.GetAccessToken() != "good":
		return nil, fault.Unauthenticated.Newf("The access token is not known")
	case req.GetWorkspaceId() != 0:
		return nil, fault.Denied.Newf("You are no member of the workspace")
	}
	return &platformv1.AuthorizeResponse{Identity: adaIdentity}, nil
}

func (p *platform) GetCredentials(_ context.Context, req *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	p.lookups = append(p.lookups, req)
	if p.err != nil {
		return nil, p.err
	}
	if p.during != nil {
		p.during()
	}
	resp := &platformv1.GetCredentialsResponse{}
	if strings.HasPrefix(req.GetRegistry(), "quay.io/") {
		resp.Credentials = &platformv1.Credentials{Username: "ada", Password: "own"}
	}
	return resp, nil
}

func TestGate(t *testing.T) {
	t.Parallel()
	down := fault.Unavailable.Newf("down")
	for _, tc := range []struct {
		name, header string
		claim        caller.Claim
		closed       bool // anonymous callers are rejected
		down         error
		want         *platformv1.Identity
		err          error
		token        string // the token that the platform received; "" if it was not called
	}{
		{name: "anonymous"},
		{name: "anonymous, not accepted", closed: true, err: fault.Unauthenticated},
		{name: "a token", claim: caller.Claim{Token: "good"}, want: adaIdentity, token: "good"},
		{name: "a token, anonymous callers not accepted", claim: caller.Claim{Token: "good"}, closed: true, want: adaIdentity, token: "good"},
		{name: "an unknown token", claim: caller.Claim{Token: "bad"}, err: fault.Unauthenticated, token: "bad"},
		{name: "a header", header: "Bearer good", want: adaIdentity, token: "good"},
		{name: "a header in capitals", header: "BEARER  good ", want: adaIdentity, token: "good"},
		{name: "the header takes precedence", header: "Bearer good", claim: caller.Claim{Token: "bad"}, want: adaIdentity, token: "good"},
		{name: "basic authentication is ignored", header: "Basic eDp5", claim: caller.Claim{Token: "good"}, want: adaIdentity, token: "good"},
		{name: "an empty header", header: "Bearer ", closed: true, err: fault.Unauthenticated},
		{name: "the service's own platform", claim: caller.Claim{Token: "good", Endpoint: "https://p/"}, want: adaIdentity, token: "good"},
		{name: "its other address", claim: caller.Claim{Token: "good", Endpoint: "https://p2"}, want: adaIdentity, token: "good"},
		{name: "an untrusted platform", claim: caller.Claim{Token: "good", Endpoint: "https://evil"}, err: fault.Invalid, token: "good"},
		{name: "not a member", claim: caller.Claim{Token: "good", WorkspaceID: 5}, err: fault.Unauthenticated, token: "good"},
		{name: "the platform is down", claim: caller.Claim{Token: "good"}, down: down, err: fault.Unavailable, token: "good"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := &platform{err: tc.down}
			g := caller.Gate{Platform: p, Anonymous: !tc.closed}
			got, err := g.Identify(rpc.WithCall(t.Context(), rpc.Call{Authorization: tc.header}), tc.claim)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("got %v, %v; want %v, %v", got, err, tc.want, tc.err)
			}
			token := ""
			if len(p.authorized) > 0 {
				token = p.authorized[0].GetAccessToken()
			}
			if token != tc.token {
				t.Errorf("the platform received the token %q, want %q", token, tc.token)
			}
		})
	}
}

func TestGateReturnsPlatformMessage(t *testing.T) {
	t.Parallel()
	g := caller.Gate{Platform: &platform{}}
	_, err := g.Identify(t.Context(), caller.Claim{Token: "good", WorkspaceID: 5})
	if e, _ := fault.As(err); e == nil || e.Public != "You are no member of the workspace" {
		t.Errorf("got %v", err)
	}
}

// TestGateScopes checks that the platform receives the scope of the call's rule, or "" for a
// rule without a scope, and that a missing scope is fault.Denied, whereas a denied workspace is
// fault.Unauthenticated.
func TestGateScopes(t *testing.T) {
	t.Parallel()
	p := &platform{}
	g := caller.Gate{Platform: p, Scopes: []rpc.Scope{rpc.ScopeBuild}}
	in := rpc.WithCall(t.Context(), rpc.Call{Authorization: "Bearer good"})
	for _, ctx := range []context.Context{rpc.WithScope(in, rpc.ScopeRequest), in} {
		if _, err := g.Identify(ctx, caller.Claim{}); err != nil {
			t.Error(err)
		}
		if err := g.Administrator(ctx, "no"); !errors.Is(err, fault.Denied) {
			t.Errorf("got %v", err)
		}
	}
	var got [][]string
	for _, req := range p.authorized {
		got = append(got, req.GetScopes())
	}
	if diff := cmp.Diff([][]string{{"request", "build"}, {"request", "build"}, {"", "build"}, {"", "build"}}, got); diff != "" {
		t.Error(diff)
	}
	p.err = fault.Denied.Newf("The access token lacks the scope build").WithCode(fault.TokenScope)
	if _, err := g.Identify(in, caller.Claim{}); !errors.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}
