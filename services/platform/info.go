package platform

import (
	"context"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// apiVersion is the version of the published API that clients check.
const apiVersion = "1.198.0"

// heartbeatInterval is the interval at which runs should send heartbeats, in seconds.
const heartbeatInterval = 60

// GetServiceInfo returns the version and the features of the platform.
func (s *Service) GetServiceInfo(context.Context, *platformv1.GetServiceInfoRequest) (*platformv1.GetServiceInfoResponse, error) {
	var authTypes []string
	if s.deps.OIDC.Issuer != "" {
		authTypes = append(authTypes, "oidc")
	}
	return &platformv1.GetServiceInfoResponse{ServiceInfo: &platformv1.ServiceInfo{
		AuthTypes: authTypes,
		Version:   s.deps.Version, ApiVersion: apiVersion, CommitId: s.deps.Commit,
		LoginPath: "/login", Navbar: &platformv1.Navbar{}, HeartbeatInterval: heartbeatInterval,
		UserWorkspaceEnabled: true, LandingUrl: s.deps.Pages, WaveEnabled: true, ApiUrl: s.deps.Endpoint,
	}}, nil
}

// ListComputeEnvs returns an empty list. It exists because clients require it.
func (s *Service) ListComputeEnvs(ctx context.Context, req *platformv1.ListComputeEnvsRequest) (*platformv1.ListComputeEnvsResponse, error) {
	return &platformv1.ListComputeEnvsResponse{}, nil
}
