package container_test

import (
	"context"
	"encoding/base64"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// builds is a fake build service. It records requests, joins those with the same target,
// and ends builds when the test says so.
type builds struct {
	buildv1.UnimplementedBuildServiceServer

	mu        sync.Mutex
	asked     []*buildv1.SubmitBuildRequest
	states    map[string]*buildv1.AwaitBuildResponse
	cancelled []string
	// parts maps builds to the builds that they are made from.
	parts  map[string][]string
	refuse error
	// failures maps the ID of a content to the reason why its newest build failed.
	failures map[string]string
	// refuseEngine is an engine that no worker has; "" for none.
	refuseEngine string
}

func (b *builds) SubmitBuild(_ context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, req)
	if b.refuse != nil {
		return nil, b.refuse
	}
	if err := refused(req, b.refuseEngine); err != nil {
		return nil, err
	}
	id := req.GetContentId() + "_1"
	state, known := b.states[id]
	if !known && req.GetDryRun() {
		return &buildv1.SubmitBuildResponse{BuildId: req.GetContentId() + "_0", LastFailure: b.failures[req.GetContentId()]}, nil
	}
	if !known {
		state = &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_QUEUED, Position: 3}
		b.states[id] = state
	}
	return &buildv1.SubmitBuildResponse{
		BuildId: id, Cached: known, Succeeded: state.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED,
	}, nil
}

func (b *builds) AwaitBuild(_ context.Context, req *buildv1.AwaitBuildRequest) (*buildv1.AwaitBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !req.GetNoWait() {
		return nil, fault.Invalid.Newf("a status must not wait")
	}
	state, ok := b.states[req.GetBuildId()]
	if !ok {
		return nil, fault.NotFound.Newf("There is no such build")
	}
	return state, nil
}

func (b *builds) LocateBuild(_ context.Context, req *buildv1.LocateBuildRequest) (*buildv1.LocateBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range b.asked {
		if state, ok := b.states[req.GetBuildId()]; ok && asked.GetContentId()+"_1" == req.GetBuildId() {
			own := strings.HasPrefix(asked.GetTarget().GetRepository(), "store/builds")
			return &buildv1.LocateBuildResponse{
				Target: asked.GetTarget(), Platform: asked.GetRecipe().GetPlatform(), Format: asked.GetRecipe().GetFormat(),
				Frozen: !own && asked.GetRecipe().GetConfig() != nil, Added: own && asked.GetRecipe().GetConfig() != nil, Scope: asked.GetScope(), Identity: asked.GetIdentity(),
				PrivateInputs: asked.GetRecipe().GetContext() != nil || len(asked.GetGivenImages()) > 0,
				State:         state.GetState(), Reason: state.GetReason(),
			}, nil
		}
	}
	return nil, fault.NotFound.Newf("There is no such build")
}

func (b *builds) DescribeBuild(_ context.Context, req *buildv1.DescribeBuildRequest) (*buildv1.DescribeBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, asked := range b.asked {
		if asked.GetContentId()+"_1" == req.GetBuildId() {
			return &buildv1.DescribeBuildResponse{Build: &buildv1.Build{ContainerFile: proto.String(asked.GetRecipe().GetContainerFile())}}, nil
		}
	}
	return nil, fault.NotFound.Newf("There is no such build")
}

func (b *builds) CancelBuild(_ context.Context, req *buildv1.CancelBuildRequest) (*buildv1.CancelBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancelled = append(b.cancelled, req.GetBuildId())
	return &buildv1.CancelBuildResponse{PartIds: b.parts[req.GetBuildId()]}, nil
}

func (b *builds) set(id string, state *buildv1.AwaitBuildResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[id] = state
}

// count returns the number of build requests.
func (b *builds) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// forget removes a build as if it had not been requested or had failed.
func (b *builds) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.states, id)
}

// fail makes a build fail.
func (b *builds) fail(id, reason string) {
	b.forget(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures == nil {
		b.failures = map[string]string{}
	}
	content, _, _ := strings.Cut(id, "_")
	b.failures[content] = reason
}

func (b *builds) last(t *testing.T) *buildv1.SubmitBuildRequest {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		t.Fatal("no build was requested")
	}
	return b.asked[len(b.asked)-1]
}

// people is a fake platform with the tokens "ada", "bob" and "eve". Only Ada has a login
// for the private registry; Eve's role may not use it. The token "ada REPOSITORY..." is Ada's
// for some repositories.
type people struct {
	platformv1.AccessServiceClient
	private string
}

func (p people) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	name, repositories, _ := strings.Cut(req.GetAccessToken(), " ")
	id := map[string]int64{"ada": 1, "bob": 2, "eve": 3}[name]
	if id == 0 {
		return nil, fault.Unauthenticated.Newf("no such token")
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{Endpoint: "http://localhost:9091", UserId: id, WorkspaceId: req.GetWorkspaceId(), Repositories: strings.Fields(repositories)}}, nil
}

func (p people) GetCredentials(_ context.Context, req *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	if strings.HasPrefix(req.GetRegistry(), p.private+"/") && req.GetIdentity().GetUserId() == 3 {
		return &platformv1.GetCredentialsResponse{Withheld: "your role view in the workspace may not use its credentials"}, nil
	}
	if !strings.HasPrefix(req.GetRegistry(), p.private+"/") || req.GetIdentity().GetUserId() != 1 {
		return &platformv1.GetCredentialsResponse{}, nil
	}
	return &platformv1.GetCredentialsResponse{Credentials: &platformv1.Credentials{Username: testkit.User, Password: testkit.Password}}, nil
}

// A site is a service with builds.
type site struct {
	*harness
	builds *builds
	// secret is an image in a separate registry that only Ada can read.
	secret  string
	private *testkit.Registry
}

func newSite(t *testing.T, db *sqldb.DB) *site {
	t.Helper()
	return newSiteWith(t, db, func(*container.Deps) {})
}

// newSiteWith lets the test change the dependencies of the service. plain lists registries
// to contact over HTTP.
func newSiteWith(t *testing.T, db *sqldb.DB, change func(*container.Deps), plain ...string) *site {
	t.Helper()
	s := &site{builds: &builds{states: map[string]*buildv1.AwaitBuildResponse{}}}
	private := testkit.NewRegistry(t, testkit.Basic)
	s.private = private
	s.secret = private.Push(t, "team/base:1", testkit.Image(t, "amd64", true))
	client := buildv1.NewBuildServiceClient(serve(t, func(to *rpc.Server) {
		buildv1.RegisterBuildServiceServer(to, s.builds)
		testkit.AllowRoles(to, "gateway")
	}))
	s.harness = newHarnessWith(t, db, func(d *container.Deps, up *testkit.Registry) {
		egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
		if err != nil {
			t.Fatal(err)
		}
		who := people{private: private.Host}
		d.Build, d.Platform, d.Keychain = client, who, caller.NewKeychain(nil, who)
		d.PublicURL = "http://slipway.example.org"
		d.Builds = container.Builds{Registry: "127.0.0.1:9090", Repository: "store/builds"}
		d.OwnRepositories = []string{"q.example/cache"}
		plain = append(plain, private.Host, up.Host)
		d.Upstream = upstream.New(upstream.Options{Egress: egress, Plain: plain, Metrics: prometheus.NewRegistry()})
		change(d)
	})
	return s
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func (s *site) ask(t *testing.T, r *containerv1.ContainerRequest) (*containerv1.SubmitContainerResponse, error) {
	t.Helper()
	return s.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: r})
}

func (s *site) must(t *testing.T, r *containerv1.ContainerRequest) *containerv1.SubmitContainerResponse {
	t.Helper()
	resp, err := s.ask(t, r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func from(image string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{ContainerFile: encoded("FROM " + image + "\nRUN true\n")}
}

func as(who string, r *containerv1.ContainerRequest) *containerv1.ContainerRequest {
	r.PlatformAccessToken = who
	return r
}

func (s *site) conda(entries ...string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{
		Type: "CONDA", Entries: entries, CondaOpts: &containerv1.CondaOptions{MambaImage: s.image, BaseImage: s.image},
	}}
}

func (s *site) status(t *testing.T, id string) *containerv1.GetContainerStatusResponse {
	t.Helper()
	resp, err := s.GetContainerStatus(t.Context(), &containerv1.GetContainerStatusRequest{RequestId: id})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
