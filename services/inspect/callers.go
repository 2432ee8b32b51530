package inspect

import (
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns which roles may make the calls of this service: the gateway for clients, and the
// container role for scans.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			inspectv1.InspectService_InspectImage_FullMethodName,
			inspectv1.InspectService_ListLayerFiles_FullMethodName,
			inspectv1.InspectService_ListImagePackages_FullMethodName,
			inspectv1.InspectService_GetImageSBOM_FullMethodName,
			inspectv1.InspectService_FindVulnerabilities_FullMethodName,
			inspectv1.InspectService_ValidateCredentials_FullMethodName,
		}, Scope: rpc.ScopePull},
		{Roles: []string{"container"}, Calls: []string{
			inspectv1.InspectService_ScanImage_FullMethodName,
			inspectv1.InspectService_GetScannedSBOM_FullMethodName,
			inspectv1.InspectService_GetVulnerabilityDatabase_FullMethodName,
			inspectv1.InspectService_GetServerVex_FullMethodName,
		}},
	}
}

// Register registers the service on a server, with its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	inspectv1.RegisterInspectServiceServer(to, s)
}
