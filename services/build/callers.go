package build

import (
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/rpc"
)

// Callers says who may make the room's calls. What carries an identity
// (SubmitBuild) is for the one role that has authenticated the person: whoever
// could submit a build as anybody could then ask for that person's logins. A
// builder takes jobs, and what it may read and use is bound to a job's ticket.
func Callers() rpc.Callers {
	return rpc.Callers{
		{Roles: []string{"gateway"}, Calls: []string{
			buildv1.BuildService_ListBuilds_FullMethodName,
			buildv1.BuildService_GetBuildStatus_FullMethodName,
			buildv1.BuildService_GetBuildLock_FullMethodName,
			buildv1.BuildService_GetQueue_FullMethodName,
			buildv1.BuildService_StreamLogs_FullMethodName,
		}},
		{Roles: []string{"container"}, Calls: []string{
			buildv1.BuildService_SubmitBuild_FullMethodName,
			buildv1.BuildService_CancelBuild_FullMethodName,
			buildv1.BuildService_LocateBuild_FullMethodName,
			buildv1.BuildService_ListEngines_FullMethodName,
		}},
		{Roles: []string{"conda"}, Calls: []string{
			buildv1.BuildService_FindLayers_FullMethodName,
		}},
		{Roles: []string{"gateway", "container"}, Calls: []string{
			buildv1.BuildService_DescribeBuild_FullMethodName,
		}},
		{Roles: []string{"container", "registry"}, Calls: []string{
			buildv1.BuildService_AwaitBuild_FullMethodName,
		}},
		{Roles: []string{"builder"}, Calls: []string{
			buildv1.WorkService_TakeJob_FullMethodName,
			buildv1.WorkService_GetContext_FullMethodName,
			buildv1.WorkService_GetBuildCredentials_FullMethodName,
		}},
	}
}

// Register offers the room on a server, to its callers.
func (s *Service) Register(to *rpc.Server) {
	to.Allow(Callers())
	buildv1.RegisterBuildServiceServer(to, s)
	buildv1.RegisterWorkServiceServer(to, s)
}
