package inspect

import (
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says who may make the room's calls: people, through the gateway.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			inspectv1.InspectService_InspectImage_FullMethodName,
			inspectv1.InspectService_ListLayerFiles_FullMethodName,
			inspectv1.InspectService_ValidateCredentials_FullMethodName,
		}},
	}
}

// Register offers the room on a server, to its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	inspectv1.RegisterInspectServiceServer(to, s)
}
