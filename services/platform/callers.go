package platform

import (
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says which roles of the program may make the room's calls. Those that
// people make come through the gateway; people says which people may. Credentials
// are for the roles that act for an identity they have authenticated, or that the
// container room has.
func Callers() rpc.Callers {
	callers := rpc.Callers{
		{Roles: []string{"container", "inspect", "build", "conda", "metrics"}, Calls: []string{
			platformv1.PlatformService_Authorize_FullMethodName,
		}},
		{Roles: []string{"container", "inspect", "build", "conda", "registry"}, Calls: []string{
			platformv1.PlatformService_GetCredentials_FullMethodName,
		}},
		{Roles: []string{"container"}, Calls: []string{
			platformv1.PlatformService_GetRunState_FullMethodName,
		}},
	}
	for _, rule := range people() {
		if !rule.who.isProgram {
			callers = append(callers, rpc.Rule{Roles: []string{"gateway"}, Calls: rule.calls})
		}
	}
	return callers
}

// Register offers the room on a server, to its callers and to the people who may.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	to.Guard(platformv1.PlatformService_ServiceDesc.ServiceName, s.admit)
	platformv1.RegisterPlatformServiceServer(to, s)
}
