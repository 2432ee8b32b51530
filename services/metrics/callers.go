package metrics

import (
	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says who may make the room's calls: who may read counts, through the
// gateway.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			metricsv1.MetricsService_CountBuilds_FullMethodName,
			metricsv1.MetricsService_CountPulls_FullMethodName,
			metricsv1.MetricsService_CountFilesystemPulls_FullMethodName,
			metricsv1.MetricsService_GetStorage_FullMethodName,
		}},
	}
}

// Register offers the room on a server, to its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	metricsv1.RegisterMetricsServiceServer(to, s)
}
