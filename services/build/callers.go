package build

import (
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers returns the callers of each method. Methods that take an identity (SubmitBuild)
// are only for the role that authenticates users: any other caller could submit builds for
// any user and obtain that user's logins. Builders take jobs, and a job's ticket limits what
// they may read and use.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			buildv1.BuildService_ListBuilds_FullMethodName,
		}, Scope: rpc.ScopeBuild},
		{Roles: []string{"gateway"}, Calls: []string{
			buildv1.BuildService_GetQueue_FullMethodName,
		}, Scope: rpc.ScopeAdmin},
		{Roles: []string{"gateway"}, Calls: []string{
			buildv1.BuildService_GetBuildStatus_FullMethodName,
			buildv1.BuildService_DescribeMirror_FullMethodName,
			buildv1.BuildService_GetBuildLock_FullMethodName,
			buildv1.BuildService_StreamLogs_FullMethodName,
		}, Scope: rpc.ScopeAny},
		{Roles: []string{"container"}, Calls: []string{
			buildv1.BuildService_SubmitBuild_FullMethodName,
			buildv1.BuildService_CancelBuild_FullMethodName,
			buildv1.BuildService_LocateBuild_FullMethodName,
			buildv1.BuildService_DescribeInputs_FullMethodName,
			buildv1.BuildService_FindEnvironments_FullMethodName,
			buildv1.BuildService_NoteMirrorProvenance_FullMethodName,
			buildv1.BuildService_GetBuildRequest_FullMethodName,
			buildv1.BuildService_ListLockedPackages_FullMethodName,
			buildv1.BuildService_ListEngines_FullMethodName,
			buildv1.BuildService_ClaimUnsolvedBuilds_FullMethodName,
			buildv1.BuildService_SolveBuild_FullMethodName,
		}},
		{Roles: []string{"conda"}, Calls: []string{
			buildv1.BuildService_FindLayers_FullMethodName,
			buildv1.BuildService_FindPackages_FullMethodName,
			buildv1.BuildService_SummarizePackages_FullMethodName,
		}},
		{Roles: []string{"gateway", "container"}, Calls: []string{
			buildv1.BuildService_DescribeBuild_FullMethodName,
		}, Scope: rpc.ScopeAny},
		{Roles: []string{"container", "registry"}, Calls: []string{
			buildv1.BuildService_AwaitBuild_FullMethodName,
		}},
		{Roles: []string{"registry"}, Calls: []string{
			buildv1.BuildService_ListDiscardedBuilds_FullMethodName,
			buildv1.BuildService_RestoreImage_FullMethodName,
		}},
		{Roles: []string{"builder"}, Calls: []string{
			buildv1.WorkService_TakeJob_FullMethodName,
			buildv1.WorkService_GetContext_FullMethodName,
			buildv1.WorkService_GetBuildCredentials_FullMethodName,
			buildv1.WorkService_SignSif_FullMethodName,
			buildv1.WorkService_RegisterWorkerKey_FullMethodName,
			buildv1.WorkService_GetWorkerKey_FullMethodName,
			buildv1.WorkService_ListUnindexedPackages_FullMethodName,
			buildv1.WorkService_IndexPackages_FullMethodName,
			buildv1.WorkService_TakeRebuild_FullMethodName,
			buildv1.WorkService_RenewRebuild_FullMethodName,
			buildv1.WorkService_ReportRebuild_FullMethodName,
		}},
	}
}

// Register registers the service on a server for its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	buildv1.RegisterBuildServiceServer(to, s)
	buildv1.RegisterWorkServiceServer(to, s)
}
