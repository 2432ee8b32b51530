package metrics

import (
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns which roles may make the calls of this service: only the gateway. The service
// itself checks whether the user may read counts.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			metricsv1.MetricsService_CountBuilds_FullMethodName,
			metricsv1.MetricsService_CountPulls_FullMethodName,
			metricsv1.MetricsService_CountFilesystemPulls_FullMethodName,
			metricsv1.MetricsService_GetStorage_FullMethodName,
		}, Scope: rpc.ScopeAdmin},
	}
}

// Register registers the service on a server, with its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	metricsv1.RegisterMetricsServiceServer(to, s)
}
