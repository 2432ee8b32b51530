package platform

import (
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says which roles of the program may make the room's calls. Of those
// that people make through the gateway, rules says which people may: every handler
// of one begins with admit. Credentials are for the roles that act for an identity
// they have authenticated, or that the container room has.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"container", "inspect", "build"}, Calls: []string{
			platformv1.PlatformService_Authorize_FullMethodName,
		}},
		{Roles: []string{"container", "inspect", "build", "registry"}, Calls: []string{
			platformv1.PlatformService_GetCredentials_FullMethodName,
		}},
		{Roles: []string{"container"}, Calls: []string{
			platformv1.PlatformService_GetRunState_FullMethodName,
		}},
		{Roles: []string{"gateway"}, Calls: signIn()},
		{Roles: []string{"gateway"}, Calls: forPeople()},
	}
}

// signIn is what the gateway asks for on behalf of somebody who has no token yet.
func signIn() []string {
	return []string{
		platformv1.PlatformService_GetServiceInfo_FullMethodName,
		platformv1.PlatformService_CreateCode_FullMethodName,
		platformv1.PlatformService_BeginSignIn_FullMethodName,
		platformv1.PlatformService_FinishSignIn_FullMethodName,
		platformv1.PlatformService_IssueTokens_FullMethodName,
	}
}

// forPeople are the calls with a REST door.
func forPeople() []string {
	return []string{
		platformv1.PlatformService_GetUserInfo_FullMethodName,
		platformv1.PlatformService_ListUserWorkspaces_FullMethodName,
		platformv1.PlatformService_ListTokens_FullMethodName,
		platformv1.PlatformService_CreateToken_FullMethodName,
		platformv1.PlatformService_DeleteToken_FullMethodName,
		platformv1.PlatformService_DeleteAllTokens_FullMethodName,
		platformv1.PlatformService_ListOrganizations_FullMethodName,
		platformv1.PlatformService_CreateOrganization_FullMethodName,
		platformv1.PlatformService_DescribeOrganization_FullMethodName,
		platformv1.PlatformService_UpdateOrganization_FullMethodName,
		platformv1.PlatformService_DeleteOrganization_FullMethodName,
		platformv1.PlatformService_ValidateOrganizationName_FullMethodName,
		platformv1.PlatformService_ListMembers_FullMethodName,
		platformv1.PlatformService_AddMember_FullMethodName,
		platformv1.PlatformService_UpdateMemberRole_FullMethodName,
		platformv1.PlatformService_DeleteMember_FullMethodName,
		platformv1.PlatformService_LeaveOrganization_FullMethodName,
		platformv1.PlatformService_ListWorkspaces_FullMethodName,
		platformv1.PlatformService_CreateWorkspace_FullMethodName,
		platformv1.PlatformService_DescribeWorkspace_FullMethodName,
		platformv1.PlatformService_UpdateWorkspace_FullMethodName,
		platformv1.PlatformService_DeleteWorkspace_FullMethodName,
		platformv1.PlatformService_ValidateWorkspaceName_FullMethodName,
		platformv1.PlatformService_ListParticipants_FullMethodName,
		platformv1.PlatformService_AddParticipant_FullMethodName,
		platformv1.PlatformService_UpdateParticipantRole_FullMethodName,
		platformv1.PlatformService_DeleteParticipant_FullMethodName,
		platformv1.PlatformService_ListCredentials_FullMethodName,
		platformv1.PlatformService_CreateCredentials_FullMethodName,
		platformv1.PlatformService_DescribeCredentials_FullMethodName,
		platformv1.PlatformService_UpdateCredentials_FullMethodName,
		platformv1.PlatformService_DeleteCredentials_FullMethodName,
		platformv1.PlatformService_ValidateCredentialsName_FullMethodName,
		platformv1.PlatformService_GetCredentialsKeys_FullMethodName,
		platformv1.PlatformService_CreatePairing_FullMethodName,
		platformv1.PlatformService_ListComputeEnvs_FullMethodName,
		platformv1.PlatformService_ListWorkflows_FullMethodName,
		platformv1.PlatformService_DescribeWorkflow_FullMethodName,
		platformv1.PlatformService_UpdateWorkflow_FullMethodName,
		platformv1.PlatformService_DeleteWorkflow_FullMethodName,
		platformv1.PlatformService_DeleteWorkflows_FullMethodName,
		platformv1.PlatformService_CancelWorkflow_FullMethodName,
		platformv1.PlatformService_ValidateWorkflowName_FullMethodName,
		platformv1.PlatformService_GetWorkflowProgress_FullMethodName,
		platformv1.PlatformService_GetWorkflowMetrics_FullMethodName,
		platformv1.PlatformService_GetWorkflowLaunch_FullMethodName,
		platformv1.PlatformService_ListTasks_FullMethodName,
		platformv1.PlatformService_DescribeTask_FullMethodName,
		platformv1.PlatformService_CreateTrace_FullMethodName,
		platformv1.PlatformService_BeginTrace_FullMethodName,
		platformv1.PlatformService_RecordProgress_FullMethodName,
		platformv1.PlatformService_RecordHeartbeat_FullMethodName,
		platformv1.PlatformService_CompleteTrace_FullMethodName,
	}
}

// Register offers the room on a server, to its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	platformv1.RegisterPlatformServiceServer(to, s)
}
