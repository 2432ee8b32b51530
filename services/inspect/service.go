// Package inspect describes images and lists the files of their layers
// (gateway/contract/container-service.md#inspection). It reads images from their registries with
// the caller's own login. It owns no data and caches only listings of layers and records of
// installed packages, which are immutable; access to the image is checked at its registry with each call.
package inspect

import (
	"github.com/prometheus/client_golang/prometheus"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/internal/vex/owners"
	"slipway.dev/services/internal/vulns"
)

// Deps are the dependencies of a Service.
type Deps struct {
	Platform platformv1.AccessServiceClient
	// Containers resolves image names that the container service issued. If it is nil, such
	// names are treated as names of ordinary images.
	Containers containerv1.ContainerServiceClient
	// Host is the host of issued names, such as "slipway.example.org".
	Host     string
	Upstream *upstream.Client
	Control  *upstream.Control
	Keychain *caller.Keychain
	Limiter  *ratelimit.Limiter
	// Vulnerabilities holds the database of vulnerabilities; nil if none is configured.
	Vulnerabilities *vulns.Source
	Metrics         prometheus.Registerer
	// AnonymousAccess allows calls without an access token.
	AnonymousAccess bool
}

// Service implements inspectv1.InspectServiceServer. Create it with New.
type Service struct {
	inspectv1.UnimplementedInspectServiceServer
	deps     Deps
	listings *listings
	contents *contentsCache
	// vex has the OpenVEX documents of users and organisations.
	vex *owners.Reader
}

// New returns a Service.
func New(d Deps) *Service {
	s := &Service{deps: d, listings: newListings(), contents: newContentsCache(), vex: owners.New(owners.Platform(d.Platform))}
	d.Metrics.MustRegister(s.listings.pool)
	return s
}

func (s *Service) gate() caller.Gate {
	return caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess}
}
