package gateway

import (
	"context"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// metricsPath is what the paths of counts begin with.
const metricsPath = "/v1alpha2/metrics/"

func mountMetrics(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
	return metricsv1.RegisterMetricsServiceHandlerClient(ctx, mux, metricsv1.NewMetricsServiceClient(conn))
}

// isMetrics knows the paths whose callers sign in with a metrics account.
func isMetrics(path string) bool { return strings.HasPrefix(path, metricsPath) }
