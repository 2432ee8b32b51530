package platform

import (
	"context"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// apiVersion is the version of this kind of API that clients look for.
const apiVersion = "1.198.0"

// heartbeat is how often runs report, in seconds.
const heartbeat = 60

// GetServiceInfo says what is running.
func (s *Service) GetServiceInfo(context.Context, *platformv1.GetServiceInfoRequest) (*platformv1.GetServiceInfoResponse, error) {
	var ways []string
	if s.deps.OIDC.Issuer != "" {
		ways = append(ways, "oidc")
	}
	return &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{
		AuthTypes: ways,
		Version:   s.deps.Version, ApiVersion: apiVersion, CommitId: s.deps.Commit,
		LoginPath: "/login", Navbar: &platformv1.Navbar{}, HeartbeatInterval: heartbeat,
		UserWorkspaceEnabled: true, LandingUrl: s.deps.Pages, WaveEnabled: true, ApiUrl: s.deps.Endpoint,
	}}, nil
}

// ListComputeEnvs returns an empty list: clients ask for it.
func (s *Service) ListComputeEnvs(ctx context.Context, req *platformv1.ListComputeEnvsRequest) (*platformv1.ListComputeEnvsResponse, error) {
	return &platformv1.ListComputeEnvsResponse{}, nil
}
