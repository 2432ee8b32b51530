package platform

import (
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/orgs"
)

// A requirement is the condition that the caller of a call must meet. The zero value requires a
// valid access token.
type requirement struct {
	// isProgram marks calls that other services of the program make without a user.
	isProgram bool
	// isAnonymous marks calls that need no token.
	isAnonymous bool
	// isAdministrator marks calls that need the access token of an administrator.
	isAdministrator bool
	// isOperator marks calls that need an operator's account.
	isOperator bool
	// scope is the scope that an access token needs. If it is "", tokens with scopes are rejected.
	scope rpc.Scope
	// isAnyWorkspace marks calls without a workspace that a token of one workspace may make.
	// Their handlers return only data of that workspace.
	isAnyWorkspace bool
	// isAnyRepository marks calls of rpc.ScopeAdmin that a token of some repositories may make.
	// Their handlers only give rights to these repositories.
	isAnyRepository bool
	// isOwnOrOrg marks calls for records of either the caller or an organisation. RequiredRoles only apply if the
	// request names an organisation.
	isOwnOrOrg bool
	// RequiredRoles are the minimum roles in the scope of the request.
	orgs.RequiredRoles
}

// An accessRule is a requirement for some calls.
type accessRule struct {
	need requirement
	// calls lists the generated …_FullMethodName constants.
	calls []string
}

// accessRules is the table of the callers that may make each call
// (gateway/contract/platform.md#roles). A call that no rule lists is denied to every caller.
func accessRules() []accessRule {
	return append([]accessRule{
		{need: requirement{isProgram: true}, calls: []string{
			platformv1.AccessService_Authorize_FullMethodName,
			platformv1.AccessService_GetCredentials_FullMethodName,
			platformv1.AccessService_GetRunState_FullMethodName,
			platformv1.AccessService_GetLimits_FullMethodName,
			platformv1.AccessService_AuthorizeUsage_FullMethodName,
			platformv1.AccessService_DescribeNames_FullMethodName,
			platformv1.AccessService_GetVex_FullMethodName,
		}},
		{need: requirement{isAnonymous: true, scope: rpc.ScopeAny}, calls: []string{
			platformv1.IdentityService_GetServiceInfo_FullMethodName,
			platformv1.IdentityService_CreateCode_FullMethodName,
			platformv1.IdentityService_BeginSignIn_FullMethodName,
			platformv1.IdentityService_FinishSignIn_FullMethodName,
			platformv1.IdentityService_BeginDeviceSignIn_FullMethodName,
			platformv1.IdentityService_DescribeDevice_FullMethodName,
			platformv1.IdentityService_GrantConsent_FullMethodName,
			platformv1.IdentityService_IssueTokens_FullMethodName,
		}},
		{need: requirement{isOperator: true, scope: rpc.ScopeAny}, calls: []string{
			platformv1.CredentialService_CreatePairing_FullMethodName,
		}},
		{need: requirement{isAdministrator: true, scope: rpc.ScopeAdmin}, calls: []string{
			platformv1.IdentityService_ListAccounts_FullMethodName,
			platformv1.IdentityService_CreateAccount_FullMethodName,
			platformv1.IdentityService_UpdateAccount_FullMethodName,
			platformv1.IdentityService_DeleteAccount_FullMethodName,
			platformv1.AuditService_ListAuditEvents_FullMethodName,
			platformv1.LimitService_ListLimits_FullMethodName,
			platformv1.LimitService_SetLimit_FullMethodName,
			platformv1.LimitService_DeleteLimit_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAny, isAnyWorkspace: true}, calls: []string{
			platformv1.IdentityService_GetUserInfo_FullMethodName,
			platformv1.OrganizationService_ListUserWorkspaces_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, isAnyRepository: true}, calls: []string{
			platformv1.IdentityService_CreateToken_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin}, calls: []string{
			platformv1.IdentityService_ListTokens_FullMethodName,
			platformv1.IdentityService_DeleteToken_FullMethodName,
			platformv1.IdentityService_DeleteAllTokens_FullMethodName,
			platformv1.LimitService_ListOwnLimits_FullMethodName,
			platformv1.OrganizationService_ListOrganizations_FullMethodName,
			platformv1.OrganizationService_CreateOrganization_FullMethodName,
			platformv1.OrganizationService_ValidateOrganizationName_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgMember}}, calls: []string{
			platformv1.OrganizationService_DescribeOrganization_FullMethodName,
			platformv1.OrganizationService_ListMembers_FullMethodName,
			platformv1.OrganizationService_LeaveOrganization_FullMethodName,
			platformv1.OrganizationService_ListWorkspaces_FullMethodName,
			platformv1.OrganizationService_ValidateWorkspaceName_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgOwner}}, calls: []string{
			platformv1.OrganizationService_UpdateOrganization_FullMethodName,
			platformv1.OrganizationService_DeleteOrganization_FullMethodName,
			platformv1.OrganizationService_AddMember_FullMethodName,
			platformv1.OrganizationService_UpdateMemberRole_FullMethodName,
			platformv1.OrganizationService_DeleteMember_FullMethodName,
			platformv1.OrganizationService_CreateWorkspace_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, isOwnOrOrg: true, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgMember}}, calls: []string{
			platformv1.VexService_ListVexDocuments_FullMethodName,
			platformv1.VexService_DescribeVexDocument_FullMethodName,
		}},
		// A document decides which images may be pulled in all workspaces of the organisation.
		{need: requirement{scope: rpc.ScopeAdmin, isOwnOrOrg: true, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgOwner}}, calls: []string{
			platformv1.VexService_SetVexDocument_FullMethodName,
			platformv1.VexService_DeleteVexDocument_FullMethodName,
		}},
		{need: requirement{
			scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgOwner, Workspace: orgs.RoleAdmin, IsOfOwner: true},
		}, calls: []string{
			// A robot's token grants access to the workspace and its logins.
			platformv1.OrganizationService_CreateRobot_FullMethodName,
			platformv1.OrganizationService_UpdateRobot_FullMethodName,
			platformv1.OrganizationService_CreateRobotToken_FullMethodName,
		}},
		{need: requirement{
			scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Org: orgs.OrgOwner, Workspace: orgs.RoleAdmin, IsOfOwner: true, OrAdministrator: true},
		}, calls: []string{
			platformv1.LimitService_ListOrganizationLimits_FullMethodName,
			platformv1.OrganizationService_ListRobots_FullMethodName,
			platformv1.OrganizationService_DescribeRobot_FullMethodName,
			platformv1.OrganizationService_DeleteRobot_FullMethodName,
			platformv1.OrganizationService_ListRobotTokens_FullMethodName,
			platformv1.OrganizationService_DeleteRobotToken_FullMethodName,
		}},
	}, workspaceRules()...)
}

// workspaceRules are the rules of the calls that act in a workspace.
func workspaceRules() []accessRule {
	return []accessRule{
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleView}}, calls: []string{
			platformv1.OrganizationService_DescribeWorkspace_FullMethodName,
			platformv1.OrganizationService_ListParticipants_FullMethodName,
			platformv1.OrganizationService_LeaveWorkspace_FullMethodName,
			platformv1.CredentialService_ValidateCredentialsName_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeCredentials, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleView}}, calls: []string{
			platformv1.CredentialService_ListCredentials_FullMethodName,
			platformv1.CredentialService_DescribeCredentials_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeRuns, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleView}}, calls: []string{
			platformv1.RunService_ListComputeEnvs_FullMethodName,
			platformv1.RunService_ListWorkflows_FullMethodName,
			platformv1.RunService_DescribeWorkflow_FullMethodName,
			platformv1.RunService_ValidateWorkflowName_FullMethodName,
			platformv1.RunService_GetWorkflowProgress_FullMethodName,
			platformv1.RunService_GetWorkflowMetrics_FullMethodName,
			platformv1.RunService_GetWorkflowLaunch_FullMethodName,
			platformv1.RunService_ListTasks_FullMethodName,
			platformv1.RunService_DescribeTask_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeCredentials, RequiredRoles: orgs.RequiredRoles{Workspace: credentials.MinRole}}, calls: []string{
			platformv1.CredentialService_GetCredentialsKeys_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeRuns, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleLaunch}}, calls: []string{
			platformv1.RunService_UpdateWorkflow_FullMethodName,
			platformv1.RunService_DeleteWorkflow_FullMethodName,
			platformv1.RunService_DeleteWorkflows_FullMethodName,
			platformv1.RunService_CancelWorkflow_FullMethodName,
			platformv1.RunService_CreateTrace_FullMethodName,
			platformv1.RunService_BeginTrace_FullMethodName,
			platformv1.RunService_RecordProgress_FullMethodName,
			platformv1.RunService_RecordHeartbeat_FullMethodName,
			platformv1.RunService_CompleteTrace_FullMethodName,
		}},
		// The URL of a webhook may contain a secret, which users with lower roles must not see.
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleMaintain}}, calls: []string{
			platformv1.WebhookService_ListWebhooks_FullMethodName,
			platformv1.WebhookService_CreateWebhook_FullMethodName,
			platformv1.WebhookService_DescribeWebhook_FullMethodName,
			platformv1.WebhookService_UpdateWebhook_FullMethodName,
			platformv1.WebhookService_DeleteWebhook_FullMethodName,
			platformv1.WebhookService_TestWebhook_FullMethodName,
			platformv1.WebhookService_ListDeliveries_FullMethodName,
			platformv1.WebhookService_DescribeDelivery_FullMethodName,
			platformv1.WebhookService_RepeatDelivery_FullMethodName,
			platformv1.CredentialService_CreateCredentials_FullMethodName,
			platformv1.CredentialService_UpdateCredentials_FullMethodName,
			platformv1.CredentialService_DeleteCredentials_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleAdmin}}, calls: []string{
			platformv1.OrganizationService_UpdateWorkspace_FullMethodName,
			platformv1.OrganizationService_AddParticipant_FullMethodName,
			platformv1.OrganizationService_UpdateParticipantRole_FullMethodName,
			platformv1.OrganizationService_DeleteParticipant_FullMethodName,
		}},
		{need: requirement{scope: rpc.ScopeAdmin, RequiredRoles: orgs.RequiredRoles{Workspace: orgs.RoleOwner}}, calls: []string{
			platformv1.OrganizationService_DeleteWorkspace_FullMethodName,
		}},
	}
}

// requirements returns the requirement of each call.
func requirements() map[string]requirement {
	by := map[string]requirement{}
	for _, rule := range accessRules() {
		for _, call := range rule.calls {
			by[call] = rule.need
		}
	}
	return by
}
