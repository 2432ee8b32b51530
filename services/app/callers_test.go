package app

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	"slipway.dev/services/build"
	"slipway.dev/services/conda"
	"slipway.dev/services/container"
	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/metrics"
	"slipway.dev/services/platform"
)

// internalCalls returns the calls that users do not make, with the roles that may make each.
// All other calls are for users, through the gateway. The list repeats the services' tables
// independently.
func internalCalls() map[string][]string {
	return map[string][]string{
		"slipway.build.v1.BuildService/SubmitBuild":                  {"container"},
		"slipway.build.v1.BuildService/CancelBuild":                  {"container"},
		"slipway.build.v1.BuildService/LocateBuild":                  {"container"},
		"slipway.build.v1.BuildService/DescribeInputs":               {"container"},
		"slipway.build.v1.BuildService/FindEnvironments":             {"container"},
		"slipway.build.v1.BuildService/NoteMirrorProvenance":         {"container"},
		"slipway.build.v1.BuildService/GetBuildRequest":              {"container"},
		"slipway.build.v1.BuildService/ListLockedPackages":           {"container"},
		"slipway.build.v1.BuildService/ClaimUnsolvedBuilds":          {"container"},
		"slipway.build.v1.BuildService/SolveBuild":                   {"container"},
		"slipway.build.v1.BuildService/ListEngines":                  {"container"},
		"slipway.build.v1.BuildService/FindLayers":                   {"conda"},
		"slipway.build.v1.BuildService/FindPackages":                 {"conda"},
		"slipway.build.v1.BuildService/SummarizePackages":            {"conda"},
		"slipway.build.v1.BuildService/DescribeBuild":                {"container", "gateway"},
		"slipway.build.v1.BuildService/AwaitBuild":                   {"container", "registry"},
		"slipway.build.v1.BuildService/ListDiscardedBuilds":          {"registry"},
		"slipway.build.v1.BuildService/RestoreImage":                 {"registry"},
		"slipway.build.v1.WorkService/TakeJob":                       {"builder"},
		"slipway.build.v1.WorkService/GetContext":                    {"builder"},
		"slipway.build.v1.WorkService/GetBuildCredentials":           {"builder"},
		"slipway.build.v1.WorkService/SignSif":                       {"builder"},
		"slipway.build.v1.WorkService/RegisterWorkerKey":             {"builder"},
		"slipway.build.v1.WorkService/GetWorkerKey":                  {"builder"},
		"slipway.build.v1.WorkService/ListUnindexedPackages":         {"builder"},
		"slipway.build.v1.WorkService/IndexPackages":                 {"builder"},
		"slipway.build.v1.WorkService/TakeRebuild":                   {"builder"},
		"slipway.build.v1.WorkService/RenewRebuild":                  {"builder"},
		"slipway.build.v1.WorkService/ReportRebuild":                 {"builder"},
		"slipway.container.v1.ContainerService/GetContainerStatus":   {"gateway", "inspect"},
		"slipway.conda.v1.CondaService/SolvePackages":                {"container"},
		"slipway.container.v1.ContainerService/ResolveToken":         {"inspect", "registry"},
		"slipway.container.v1.ContainerService/RecordDigest":         {"registry"},
		"slipway.container.v1.ContainerService/ListAttestations":     {"registry"},
		"slipway.container.v1.ContainerService/GetLayer":             {"builder", "inspect", "registry"},
		"slipway.container.v1.ContainerService/AwaitScan":            {"registry"},
		"slipway.container.v1.ContainerService/CountCatalogPulls":    {"registry"},
		"slipway.inspect.v1.InspectService/ScanImage":                {"container"},
		"slipway.inspect.v1.InspectService/GetScannedSBOM":           {"container"},
		"slipway.inspect.v1.InspectService/GetVulnerabilityDatabase": {"container"},
		"slipway.platform.v1.AccessService/Authorize":                {"build", "conda", "container", "inspect", "metrics"},
		"slipway.platform.v1.AccessService/GetCredentials":           {"build", "conda", "container", "inspect", "registry"},
		"slipway.platform.v1.AccessService/GetRunState":              {"container"},
		"slipway.platform.v1.AccessService/GetVex":                   {"container", "inspect"},
		"slipway.inspect.v1.InspectService/GetServerVex":             {"container"},
		"slipway.platform.v1.AccessService/GetLimits":                {"build", "conda", "container", "inspect", "registry"},
		"slipway.platform.v1.AccessService/AuthorizeUsage":           {"metrics"},
		"slipway.platform.v1.AccessService/DescribeNames":            {"metrics"},
	}
}

// everyMethod lists the calls of all our services, from their descriptors.
func everyMethod() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "slipway.") {
			return true
		}
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, service.Methods().Get(j))
			}
		}
		return true
	})
	return all
}

// callName returns gRPC's name of a method.
func callName(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// TestEveryRoleAndEveryCall tries every method of every service with every role: a method
// without a rule fails, and each pair is accepted or rejected by a server with the
// services' own tables.
func TestEveryRoleAndEveryCall(t *testing.T) {
	t.Parallel()
	server := rpc.NewServer(rpc.ServerOptions{Log: testkit.Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())})
	rules := slices.Concat(build.Callers(), conda.Callers(), container.Callers(), inspect.Callers(), metrics.Callers(), platform.Callers())
	server.Allow(rules)
	methods := everyMethod()
	for _, m := range methods {
		if len(rules.Roles(callName(m))) == 0 {
			t.Errorf("no rule says who may call %s", m.FullName())
		}
	}
	offerNothing(server, methods)
	memory := rpc.NewMemory()
	go func() { _ = server.Serve(memory) }()
	t.Cleanup(server.Server.Stop)
	for _, role := range append(Names(), "", "admin") {
		conn, err := memory.Dial(role)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range methods {
			may := []string{"gateway"}
			if roles, is := internalCalls()[callName(m)[1:]]; is {
				may = roles
			}
			err := conn.Invoke(t.Context(), callName(m), &emptypb.Empty{}, &emptypb.Empty{})
			if denied := errors.Is(err, fault.Denied); denied == slices.Contains(may, role) {
				t.Errorf("%q calls %s: %v", role, m.FullName(), err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// offerNothing registers services whose calls all return Unimplemented.
func offerNothing(server *rpc.Server, methods []protoreflect.MethodDescriptor) {
	nothing := func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "") }
	services := map[string]*grpc.ServiceDesc{}
	for _, m := range methods {
		name := string(m.Parent().FullName())
		if services[name] == nil {
			services[name] = &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
		}
		services[name].Streams = append(services[name].Streams, grpc.StreamDesc{StreamName: string(m.Name()), Handler: nothing, ServerStreams: true})
	}
	for _, desc := range services {
		server.RegisterService(desc, nil)
	}
}

// TestRulesNameWhatExists checks for rules of unknown roles or calls, which would allow
// nothing and hide that.
func TestRulesNameWhatExists(t *testing.T) {
	t.Parallel()
	var calls []string
	for _, m := range everyMethod() {
		calls = append(calls, callName(m))
	}
	seen := map[string]bool{}
	for _, rule := range slices.Concat(build.Callers(), conda.Callers(), container.Callers(), inspect.Callers(), metrics.Callers(), platform.Callers()) {
		for _, role := range rule.Roles {
			if !slices.Contains(Names(), role) {
				t.Errorf("there is no role %q", role)
			}
		}
		for _, call := range rule.Calls {
			if !slices.Contains(calls, call) || seen[call] {
				t.Errorf("%s is not there, or has two rules", call)
			}
			seen[call] = true
		}
	}
}

// unscopedCalls are the calls of users that a token with any scope may make: they show what is
// public or the user's own identity, need no access token, or are authorized by an operator's
// account, a code, or a token in an image name. The list repeats the services' tables independently.
func unscopedCalls() []string {
	return []string{
		"slipway.build.v1.BuildService/DescribeBuild", "slipway.build.v1.BuildService/DescribeMirror", "slipway.build.v1.BuildService/GetBuildLock",
		"slipway.build.v1.BuildService/GetBuildStatus", "slipway.build.v1.BuildService/StreamLogs",
		"slipway.container.v1.ContainerService/GetContainerStatus", "slipway.container.v1.ContainerService/GetServiceInfo",
		"slipway.container.v1.ContainerService/GetSigningKeys", "slipway.container.v1.ContainerService/GetTrustedRoot",
		"slipway.container.v1.ContainerService/ListAbilities", "slipway.container.v1.ContainerService/RevokeToken", "slipway.container.v1.ContainerService/DeleteCatalogImage",
		"slipway.platform.v1.CredentialService/CreatePairing",
		"slipway.platform.v1.IdentityService/BeginDeviceSignIn", "slipway.platform.v1.IdentityService/BeginSignIn",
		"slipway.platform.v1.IdentityService/CreateCode", "slipway.platform.v1.IdentityService/DescribeDevice",
		"slipway.platform.v1.IdentityService/FinishSignIn", "slipway.platform.v1.IdentityService/GetServiceInfo",
		"slipway.platform.v1.IdentityService/GetUserInfo", "slipway.platform.v1.IdentityService/GrantConsent",
		"slipway.platform.v1.IdentityService/IssueTokens", "slipway.platform.v1.OrganizationService/ListUserWorkspaces",
	}
}

// TestEveryRuleHasAScope checks that each rule for the gateway names a scope that tokens can have,
// or only lists unscopedCalls, and that rules for other roles, behind which there is no access
// token, name none.
func TestEveryRuleHasAScope(t *testing.T) {
	t.Parallel()
	for _, rule := range slices.Concat(build.Callers(), conda.Callers(), container.Callers(), inspect.Callers(), metrics.Callers(), platform.Callers()) {
		for _, call := range rule.Calls {
			unscoped := slices.Contains(unscopedCalls(), call[1:])
			switch isPublic := slices.Contains(rule.Roles, "gateway"); {
			case isPublic && unscoped != (rule.Scope == rpc.ScopeAny):
				t.Errorf("%s needs the scope %q, and is listed as a call without a scope: %t", call, rule.Scope, unscoped)
			case isPublic && !unscoped && !slices.Contains(rpc.Scopes(), rule.Scope):
				t.Errorf("%s needs the scope %q, which does not exist", call, rule.Scope)
			case !isPublic && rule.Scope != "":
				t.Errorf("%s is internal and needs the scope %q", call, rule.Scope)
			}
		}
	}
}

// TestCallsOfRoles compares the table of roles with the services' rules: a role is
// connected to exactly the roles that it may call.
func TestCallsOfRoles(t *testing.T) {
	t.Parallel()
	rules := map[string]rpc.Callers{
		"build": build.Callers(), "conda": conda.Callers(), "container": container.Callers(), "inspect": inspect.Callers(), "metrics": metrics.Callers(), "platform": platform.Callers(),
	}
	for _, r := range roles() {
		for name, callers := range rules {
			connects := slices.ContainsFunc(r.calls, func(c callee) bool { return c.name == name })
			allowed := slices.ContainsFunc(callers, func(rule rpc.Rule) bool { return slices.Contains(rule.Roles, r.name) })
			if connects != allowed {
				t.Errorf("the role %s connects to %s: %v; it may call something there: %v", r.name, name, connects, allowed)
			}
		}
	}
}
