package metrics

import (
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns which roles may make the calls of this service: only the gateway. The service
// itself checks whether the user may read counts or usage.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			metricsv1.MetricsService_CountBuilds_FullMethodName,
			metricsv1.MetricsService_CountPulls_FullMethodName,
			metricsv1.MetricsService_CountFilesystemPulls_FullMethodName, metricsv1.MetricsService_CountMirrors_FullMethodName,
			metricsv1.MetricsService_GetStorage_FullMethodName,
			metricsv1.MetricsService_GetHealth_FullMethodName,
			usagev1.UsageService_GetUsage_FullMethodName,
			usagev1.UsageService_GetUserUsage_FullMethodName,
		}, Scope: rpc.ScopeAdmin},
	}
}

// Register registers the services on a server, with its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	metricsv1.RegisterMetricsServiceServer(to, s)
	usagev1.RegisterUsageServiceServer(to, s)
}
