package container

import (
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns the callers of each method. Users call through the gateway and are
// authenticated here. ResolveToken returns the plan of a token with the identity that
// created it; it is for the roles that serve or inspect images.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			containerv1.ContainerService_SubmitContainer_FullMethodName,
			containerv1.ContainerService_SubmitContainers_FullMethodName,
			containerv1.ContainerService_SubmitContainerToken_FullMethodName,
			containerv1.ContainerService_RevokeContainer_FullMethodName,
			containerv1.ContainerService_RevokeBuild_FullMethodName,
			containerv1.ContainerService_PatchImage_FullMethodName,
		}, Scope: rpc.ScopeRequest},
		{Roles: []string{"gateway"}, Calls: []string{
			containerv1.ContainerService_ListContainers_FullMethodName,
			containerv1.ContainerService_ListOutdatedImages_FullMethodName,
			containerv1.ContainerService_DescribeContainer_FullMethodName,
			containerv1.ContainerService_NameContainer_FullMethodName,
			containerv1.ContainerService_StreamSif_FullMethodName,
			containerv1.ContainerService_DescribeScan_FullMethodName,
			containerv1.ContainerService_DescribeBuildScan_FullMethodName,
			containerv1.ContainerService_GetScanSpdx_FullMethodName,
			containerv1.ContainerService_GetScanCycloneDx_FullMethodName,
			containerv1.ContainerService_GetScanLogs_FullMethodName,
			containerv1.ContainerService_ListCatalog_FullMethodName,
			containerv1.ContainerService_GetCatalogImage_FullMethodName,
			containerv1.ContainerService_GetCatalogLock_FullMethodName,
			containerv1.ContainerService_GetCitation_FullMethodName,
			containerv1.ContainerService_GetEnvironment_FullMethodName,
		}, Scope: rpc.ScopePull},
		{Roles: []string{"gateway"}, Calls: []string{
			containerv1.ContainerService_RevokeToken_FullMethodName,
			containerv1.ContainerService_GetServiceInfo_FullMethodName,
			containerv1.ContainerService_GetSigningKeys_FullMethodName,
			containerv1.ContainerService_GetTrustedRoot_FullMethodName,
			containerv1.ContainerService_ListAbilities_FullMethodName,
			containerv1.ContainerService_DeleteCatalogImage_FullMethodName,
		}, Scope: rpc.ScopeAny},
		{Roles: []string{"gateway", "inspect"}, Calls: []string{
			containerv1.ContainerService_GetContainerStatus_FullMethodName,
		}, Scope: rpc.ScopeAny},
		{Roles: []string{"inspect", "registry"}, Calls: []string{
			containerv1.ContainerService_ResolveToken_FullMethodName,
		}},
		{Roles: []string{"registry"}, Calls: []string{
			containerv1.ContainerService_RecordDigest_FullMethodName,
			containerv1.ContainerService_CountCatalogPulls_FullMethodName,
			containerv1.ContainerService_ListAttestations_FullMethodName,
			containerv1.ContainerService_AwaitScan_FullMethodName,
		}},
		{Roles: []string{"registry", "builder", "inspect"}, Calls: []string{
			containerv1.ContainerService_GetLayer_FullMethodName,
		}},
	}
}

// Register registers the service on a server for its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	containerv1.RegisterContainerServiceServer(to, s)
}
