package conda

import (
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns the callers of each method: users, through the gateway, and the
// container service on behalf of its callers.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			condav1.CondaService_LockPackages_FullMethodName,
			condav1.CondaService_CompareLocks_FullMethodName,
			condav1.CondaService_ExplainPackage_FullMethodName,
			condav1.CondaService_ListLicenses_FullMethodName,
			condav1.CondaService_SearchPackages_FullMethodName,
			condav1.CondaService_DescribePackage_FullMethodName,
		}, Scope: rpc.ScopeRequest},
		{Roles: []string{"gateway"}, Calls: []string{
			condav1.CondaService_ListChannels_FullMethodName,
		}, Scope: rpc.ScopeAdmin},
		{Roles: []string{"container"}, Calls: []string{
			condav1.CondaService_SolvePackages_FullMethodName,
		}},
	}
}

// Register registers the service on a server for its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	condav1.RegisterCondaServiceServer(to, s)
}
