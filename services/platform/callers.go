package platform

import (
	"google.golang.org/grpc"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns which roles of the program may make the calls of this service. Calls of users
// come through the gateway; accessRules defines which users may make them. Only roles that act
// on behalf of a user may read credentials. The role itself or the container service has
// authenticated that user.
func Callers() rpc.Callers {
	callers := rpc.Callers{
		{Roles: []string{"container", "inspect", "build", "conda", "metrics"}, Calls: []string{
			platformv1.AccessService_Authorize_FullMethodName,
		}},
		{Roles: []string{"container", "inspect", "build", "conda", "registry"}, Calls: []string{
			platformv1.AccessService_GetCredentials_FullMethodName,
			platformv1.AccessService_GetLimits_FullMethodName,
		}},
		{Roles: []string{"container"}, Calls: []string{
			platformv1.AccessService_GetRunState_FullMethodName,
		}},
		{Roles: []string{"container", "inspect"}, Calls: []string{
			platformv1.AccessService_GetVex_FullMethodName,
		}},
		{Roles: []string{"metrics"}, Calls: []string{
			platformv1.AccessService_AuthorizeUsage_FullMethodName,
			platformv1.AccessService_DescribeNames_FullMethodName,
		}},
	}
	for _, rule := range accessRules() {
		if !rule.need.isProgram {
			callers = append(callers, rpc.Rule{Roles: []string{"gateway"}, Calls: rule.calls, Scope: rule.need.scope})
		}
	}
	return callers
}

// Register registers the gRPC services on a server, with their callers and the check of access
// rules.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	for _, desc := range []grpc.ServiceDesc{
		platformv1.AccessService_ServiceDesc, platformv1.IdentityService_ServiceDesc, platformv1.OrganizationService_ServiceDesc,
		platformv1.CredentialService_ServiceDesc, platformv1.RunService_ServiceDesc, platformv1.AuditService_ServiceDesc,
		platformv1.WebhookService_ServiceDesc,
		platformv1.LimitService_ServiceDesc, platformv1.VexService_ServiceDesc,
	} {
		to.Guard(desc.ServiceName, s.admit)
	}
	platformv1.RegisterAccessServiceServer(to, s)
	platformv1.RegisterIdentityServiceServer(to, s)
	platformv1.RegisterOrganizationServiceServer(to, s)
	platformv1.RegisterCredentialServiceServer(to, s)
	platformv1.RegisterRunServiceServer(to, s)
	platformv1.RegisterAuditServiceServer(to, s)
	platformv1.RegisterWebhookServiceServer(to, s)
	platformv1.RegisterLimitServiceServer(to, s)
	platformv1.RegisterVexServiceServer(to, s)
}
