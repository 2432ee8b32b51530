// Package inspect owns nothing: it reads images at other people's registries with the
// caller's own login, what they are made of and which files their layers have, and answers
// it in the shape of gateway/contract/container-service.md#inspection. It remembers only
// what is in layers, which does not change.
package inspect

import (
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/upstream"
)

// Deps is what the service works with.
type Deps struct {
	Platform platformv1.PlatformServiceClient
	// Containers knows what names stand for that the service gave out; nil where
	// they are images like any other.
	Containers containerv1.ContainerServiceClient
	// Host is in these names, e.g. "slipway.example.org".
	Host     string
	Upstream *upstream.Client
	Control  *upstream.Control
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// AnonymousAccess says whether callers without an access token are served.
	AnonymousAccess bool
	// PullsUser and PullsAnonymous limit inspections, which are charged as pulls of a
	// user or a client's address.
	PullsUser, PullsAnonymous ratelimit.Limit
}

// Service implements inspectv1.InspectServiceServer. Make it with New.
type Service struct {
	inspectv1.UnimplementedInspectServiceServer
	deps     Deps
	listings *listings
}

// New makes the service.
func New(d Deps) *Service { return &Service{deps: d, listings: newListings()} }

func (s *Service) gate() caller.Gate {
	return caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}
}
