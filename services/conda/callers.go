package conda

import (
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says who may make the room's calls: people, through the gateway; and the
// container room, for the callers that it knows.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			condav1.CondaService_LockPackages_FullMethodName,
			condav1.CondaService_SearchPackages_FullMethodName,
			condav1.CondaService_DescribePackage_FullMethodName,
			condav1.CondaService_ListChannels_FullMethodName,
		}},
		{Roles: []string{"container"}, Calls: []string{
			condav1.CondaService_SolvePackages_FullMethodName,
		}},
	}
}

// Register offers the room on a server, to its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	condav1.RegisterCondaServiceServer(to, s)
}
