package platform

import (
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/orgs"
)

// requirement is what a call asks of the person behind it; the zero value asks for a
// good access token.
type requirement struct {
	// isProgram are calls that roles of the program make in nobody's name.
	isProgram bool
	// isAnonymous are calls of those who have no token yet.
	isAnonymous bool
	// isOperator are calls with an operator's account.
	isOperator bool
	// Need is the least role where the request says that it acts.
	orgs.Need
}

// personRule lets people make calls.
type personRule struct {
	who requirement
	// calls by their full names: the generated …_FullMethodName.
	calls []string
}

// people is the one table of who may make which call
// (gateway/contract/platform.md#roles). A call that no rule lists is refused, whoever
// makes it.
func people() []personRule {
	return []personRule{
		{who: requirement{isProgram: true}, calls: []string{
			platformv1.PlatformService_Authorize_FullMethodName,
			platformv1.PlatformService_GetCredentials_FullMethodName,
			platformv1.PlatformService_GetRunState_FullMethodName,
		}},
		{who: requirement{isAnonymous: true}, calls: []string{
			platformv1.PlatformService_GetServiceInfo_FullMethodName,
			platformv1.PlatformService_CreateCode_FullMethodName,
			platformv1.PlatformService_BeginSignIn_FullMethodName,
			platformv1.PlatformService_FinishSignIn_FullMethodName,
			platformv1.PlatformService_BeginDeviceSignIn_FullMethodName,
			platformv1.PlatformService_AllowDevice_FullMethodName,
			platformv1.PlatformService_IssueTokens_FullMethodName,
		}},
		{who: requirement{isOperator: true}, calls: []string{
			platformv1.PlatformService_CreatePairing_FullMethodName,
		}},
		{who: requirement{}, calls: []string{
			platformv1.PlatformService_GetUserInfo_FullMethodName,
			platformv1.PlatformService_ListUserWorkspaces_FullMethodName,
			platformv1.PlatformService_ListTokens_FullMethodName,
			platformv1.PlatformService_CreateToken_FullMethodName,
			platformv1.PlatformService_DeleteToken_FullMethodName,
			platformv1.PlatformService_DeleteAllTokens_FullMethodName,
			platformv1.PlatformService_ListOrganizations_FullMethodName,
			platformv1.PlatformService_CreateOrganization_FullMethodName,
			platformv1.PlatformService_ValidateOrganizationName_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Org: orgs.OrgMember}}, calls: []string{
			platformv1.PlatformService_DescribeOrganization_FullMethodName,
			platformv1.PlatformService_ListMembers_FullMethodName,
			platformv1.PlatformService_LeaveOrganization_FullMethodName,
			platformv1.PlatformService_ListWorkspaces_FullMethodName,
			platformv1.PlatformService_ValidateWorkspaceName_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Org: orgs.OrgOwner}}, calls: []string{
			platformv1.PlatformService_UpdateOrganization_FullMethodName,
			platformv1.PlatformService_DeleteOrganization_FullMethodName,
			platformv1.PlatformService_AddMember_FullMethodName,
			platformv1.PlatformService_UpdateMemberRole_FullMethodName,
			platformv1.PlatformService_DeleteMember_FullMethodName,
			platformv1.PlatformService_CreateWorkspace_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: orgs.RoleView}}, calls: []string{
			platformv1.PlatformService_DescribeWorkspace_FullMethodName,
			platformv1.PlatformService_ListParticipants_FullMethodName,
			platformv1.PlatformService_ListComputeEnvs_FullMethodName,
			platformv1.PlatformService_ListCredentials_FullMethodName,
			platformv1.PlatformService_DescribeCredentials_FullMethodName,
			platformv1.PlatformService_ValidateCredentialsName_FullMethodName,
			platformv1.PlatformService_ListWorkflows_FullMethodName,
			platformv1.PlatformService_DescribeWorkflow_FullMethodName,
			platformv1.PlatformService_ValidateWorkflowName_FullMethodName,
			platformv1.PlatformService_GetWorkflowProgress_FullMethodName,
			platformv1.PlatformService_GetWorkflowMetrics_FullMethodName,
			platformv1.PlatformService_GetWorkflowLaunch_FullMethodName,
			platformv1.PlatformService_ListTasks_FullMethodName,
			platformv1.PlatformService_DescribeTask_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: credentials.UsedBy}}, calls: []string{
			platformv1.PlatformService_GetCredentialsKeys_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: orgs.RoleLaunch}}, calls: []string{
			platformv1.PlatformService_UpdateWorkflow_FullMethodName,
			platformv1.PlatformService_DeleteWorkflow_FullMethodName,
			platformv1.PlatformService_DeleteWorkflows_FullMethodName,
			platformv1.PlatformService_CancelWorkflow_FullMethodName,
			platformv1.PlatformService_CreateTrace_FullMethodName,
			platformv1.PlatformService_BeginTrace_FullMethodName,
			platformv1.PlatformService_RecordProgress_FullMethodName,
			platformv1.PlatformService_RecordHeartbeat_FullMethodName,
			platformv1.PlatformService_CompleteTrace_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: orgs.RoleMaintain}}, calls: []string{
			platformv1.PlatformService_CreateCredentials_FullMethodName,
			platformv1.PlatformService_UpdateCredentials_FullMethodName,
			platformv1.PlatformService_DeleteCredentials_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: orgs.RoleAdmin}}, calls: []string{
			platformv1.PlatformService_UpdateWorkspace_FullMethodName,
			platformv1.PlatformService_AddParticipant_FullMethodName,
			platformv1.PlatformService_UpdateParticipantRole_FullMethodName,
			platformv1.PlatformService_DeleteParticipant_FullMethodName,
		}},
		{who: requirement{Need: orgs.Need{Workspace: orgs.RoleOwner}}, calls: []string{
			platformv1.PlatformService_DeleteWorkspace_FullMethodName,
		}},
	}
}

// requirements is the table by call.
func requirements() map[string]requirement {
	by := map[string]requirement{}
	for _, rule := range people() {
		for _, call := range rule.calls {
			by[call] = rule.who
		}
	}
	return by
}
