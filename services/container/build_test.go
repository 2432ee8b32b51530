package container_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// builds stands in for the build room: it writes down what it is asked, joins what
// has the same target, and ends builds when the test says so.
type builds struct {
	buildv1.UnimplementedBuildServiceServer

	mu        sync.Mutex
	asked     []*buildv1.SubmitBuildRequest
	states    map[string]*buildv1.AwaitBuildResponse
	cancelled []string
	refuse    error
}

func (b *builds) SubmitBuild(_ context.Context, req *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, req)
	if b.refuse != nil {
		return nil, b.refuse
	}
	id := req.GetContentId() + "_1"
	state, known := b.states[id]
	if !known && req.GetDryRun() {
		return &buildv1.SubmitBuildResponse{BuildId: req.GetContentId() + "_0"}, nil
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

func (b *builds) CancelBuild(_ context.Context, req *buildv1.CancelBuildRequest) (*buildv1.CancelBuildResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cancelled = append(b.cancelled, req.GetBuildId())
	return &buildv1.CancelBuildResponse{}, nil
}

func (b *builds) set(id string, state *buildv1.AwaitBuildResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[id] = state
}

func (b *builds) last(t *testing.T) *buildv1.SubmitBuildRequest {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		t.Fatal("no build was asked for")
	}
	return b.asked[len(b.asked)-1]
}

// people stands in for the platform: the tokens "ada" and "bob", of whom Ada alone
// has a login for the private registry.
type people struct {
	platformv1.PlatformServiceClient
	private string
}

func (p people) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	id := map[string]int64{"ada": 1, "bob": 2}[req.GetAccessToken()]
	if id == 0 {
		return nil, fault.Unauthenticated.Newf("no such token")
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{Endpoint: "http://localhost:9091", UserId: id, WorkspaceId: req.GetWorkspaceId()}}, nil
}

func (p people) GetCredentials(_ context.Context, req *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	if !strings.HasPrefix(req.GetRegistry(), p.private+"/") || req.GetIdentity().GetUserId() != 1 {
		return &platformv1.GetCredentialsResponse{}, nil
	}
	return &platformv1.GetCredentialsResponse{Credentials: &platformv1.Credentials{Username: testkit.User, Password: testkit.Password}}, nil
}

// site is a room that builds.
type site struct {
	*room
	builds *builds
	// secret is an image that Ada alone can read.
	secret string
}

func newSite(t *testing.T, db *sqldb.DB) *site {
	t.Helper()
	s := &site{builds: &builds{states: map[string]*buildv1.AwaitBuildResponse{}}}
	private := testkit.NewRegistry(t, testkit.Basic)
	s.secret = private.Push(t, "team/base:1", testkit.Image(t, "amd64", true))
	client := buildv1.NewBuildServiceClient(serve(t, func(to grpc.ServiceRegistrar) { buildv1.RegisterBuildServiceServer(to, s.builds) }))
	s.room = newRoomWith(t, db, func(d *container.Deps, up *testkit.Registry) {
		egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
		if err != nil {
			t.Fatal(err)
		}
		who := people{private: private.Host}
		d.Build, d.Platform, d.Keychain = client, who, caller.NewKeychain(nil, who)
		d.Upstream = upstream.New(upstream.Options{Egress: egress, Plain: []string{private.Host, up.Host}, Metrics: prometheus.NewRegistry()})
		d.PublicURL = "http://slipway.example.org"
		d.Builds = container.Builds{Registry: "127.0.0.1:9090", Repository: "store/builds"}
		d.OwnRepositories = []string{"q.example/cache"}
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

func TestARecipeIsBuiltOnce(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		first := s.must(t, s.conda("samtools=1.20"))
		job := s.builds.last(t)
		id := job.GetContentId()
		image := "127.0.0.1:9090/store/builds:samtools-1.20--" + id
		want := &containerv1.SubmitContainerResponse{
			RequestId: first.RequestId, ContainerToken: first.RequestId, Expiration: first.GetExpiration(),
			TargetImage:    proto.String("slipway.example.org/wt/" + first.GetRequestId() + "/builds:samtools-1.20--" + id),
			ContainerImage: proto.String(image), BuildId: proto.String(id + "_1"),
			Cached: proto.Bool(false), Freeze: proto.Bool(false), Mirror: proto.Bool(false),
		}
		if !proto.Equal(want, first) {
			t.Errorf("got  %v\nwant %v", first, want)
		}
		if job.GetScope() != "" || len(job.GetRegistries()) != 0 || job.GetRecipe().GetEngine() != "buildkit" || job.GetRecipe().GetPlatform() != "linux/amd64" {
			t.Errorf("asked for %v", job)
		}
		plan, err := s.resolve(t, first.GetContainerToken(), false)
		if err != nil || plan.GetBuildId() != id+"_1" || plan.GetBuilt() || plan.GetFrozen() || plan.GetSource().GetRepository() != "store/builds" {
			t.Errorf("the plan is %v, %v", plan, err)
		}

		second := s.must(t, as("bob", s.conda("samtools=1.20")))
		if !second.GetCached() || second.Succeeded != nil || second.GetBuildId() != first.GetBuildId() {
			t.Errorf("joining: %v", second)
		}
		s.builds.set(id+"_1", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
		third := s.must(t, s.conda("samtools=1.20"))
		if !third.GetCached() || !third.GetSucceeded() || third.GetContainerToken() == first.GetContainerToken() {
			t.Errorf("when it is there: %v", third)
		}
		if plan, err := s.resolve(t, third.GetContainerToken(), true); err != nil || !plan.GetBuilt() {
			t.Errorf("the plan of what is there is %v, %v", plan, err)
		}
		if d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: first.GetRequestId()}); err != nil || d.GetBuildId() != id+"_1" {
			t.Errorf("it is described as %v, %v", d, err)
		}
	})
}

func TestNamesOnTheWire(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for _, tc := range []struct{ strategy, want string }{
		{"", "builds:samtools-1.20--"}, {"none", "builds:"}, {"tagPrefix", "builds:samtools-1.20--"}, {"imageSuffix", "builds/samtools:1.20--"},
	} {
		r := s.conda("samtools=1.20")
		r.NameStrategy = tc.strategy
		resp := s.must(t, r)
		if want := "slipway.example.org/wt/" + resp.GetContainerToken() + "/" + tc.want + s.builds.last(t).GetContentId(); resp.GetTargetImage() != want {
			t.Errorf("%q: %s, want %s", tc.strategy, resp.GetTargetImage(), want)
		}
	}
	file := from(s.image)
	file.NameStrategy = "imageSuffix"
	if resp := s.must(t, file); !strings.HasSuffix(resp.GetTargetImage(), "/builds:"+s.builds.last(t).GetContentId()) {
		t.Errorf("a Dockerfile: %s", resp.GetTargetImage())
	}
}

func TestDeprecatedPathBuilds(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	r := from(s.image)
	r.Freeze, r.BuildRepository = true, "q.example/mine"
	resp, err := s.SubmitContainerToken(t.Context(), &containerv1.SubmitContainerTokenRequest{Request: r})
	if err != nil || resp.GetBuildId() == "" || resp.GetContainerToken() == "" || resp.GetExpiration() == nil || !strings.HasPrefix(resp.GetTargetImage(), "q.example/mine:") {
		t.Errorf("got %v, %v", resp, err)
	}
}

// TestTenancy is contract §3, Scope.
func TestTenancy(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	ada := s.must(t, as("ada", from(s.secret)))
	job := s.builds.last(t)
	host, _, _ := strings.Cut(s.secret, "/")
	if len(job.GetScope()) != 16 || job.GetTarget().GetRepository() != "store/builds/"+job.GetScope() {
		t.Errorf("it goes to %v with scope %q", job.GetTarget(), job.GetScope())
	}
	if diff := cmp.Diff([]string{host}, job.GetRegistries()); diff != "" {
		t.Errorf("registries (-want +got):\n%s", diff)
	}
	for _, who := range []string{"bob", ""} {
		for _, image := range []string{s.secret, ada.GetContainerImage(), "127.0.0.1:9090/store/builds:x", "127.0.0.1:9090/store/builds/x:1", "Q.example/cache/x"} {
			for name, r := range map[string]*containerv1.ContainerRequest{
				"FROM": from(image), "COPY": {ContainerFile: encoded("FROM scratch\nCOPY --from=" + image + " / /\n")},
				"mount": {ContainerFile: encoded("FROM " + s.image + "\nRUN --mount=type=bind,from=" + image + ",target=/x true\n")},
				"image": {ContainerImage: image}, "base image": {Packages: &containerv1.Packages{
					Type: "CONDA", Entries: []string{"bwa"}, CondaOpts: &containerv1.CondaOptions{MambaImage: s.image, BaseImage: image},
				}},
			} {
				_, err := s.ask(t, as(who, r))
				if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), image) || !strings.Contains(err.Error(), "exist") {
					t.Errorf("%q, %s of %s: %v", who, name, image, err)
				}
			}
		}
	}
	other := as("ada", from(s.secret))
	other.PlatformWorkspaceId = proto.Int64(7)
	s.must(t, other)
	if again := s.builds.last(t); again.GetScope() == job.GetScope() || again.GetContentId() == job.GetContentId() {
		t.Error("another workspace has the same scope")
	}
}

func TestPublicImagesAreSharedWhoeverAsks(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	ids := map[string]bool{}
	for _, who := range []string{"", "ada", "bob"} {
		s.must(t, as(who, from(s.image)))
		job := s.builds.last(t)
		ids[job.GetContentDigest()] = true
		if job.GetScope() != "" || len(job.GetRegistries()) != 0 || (job.GetIdentity() != nil) != (who != "") {
			t.Errorf("%q: %v", who, job)
		}
	}
	if len(ids) != 1 {
		t.Errorf("%d contents, want one", len(ids))
	}
}

func TestOwnRepository(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	config := &containerv1.ContainerConfig{Env: []string{"A=b"}}
	request := func(who string, freeze bool) *containerv1.ContainerRequest {
		r := as(who, s.conda("bwa"))
		r.BuildRepository, r.CacheRepository, r.Freeze, r.ContainerConfig = "q.example/team/mine", "q.example/team/cache", freeze, config
		return r
	}
	served := s.must(t, request("ada", false))
	job := s.builds.last(t)
	if job.GetTarget().GetRepository() != "team/mine" || len(job.GetScope()) != 16 || job.GetRecipe().GetConfig() != nil || job.GetTarget().GetCacheRepository() != "q.example/team/cache" {
		t.Errorf("asked for %v", job)
	}
	if want := "slipway.example.org/wt/" + served.GetContainerToken() + "/team/mine:bwa--" + job.GetContentId(); served.GetTargetImage() != want {
		t.Errorf("served as %s, want %s", served.GetTargetImage(), want)
	}
	if plan, err := s.resolve(t, served.GetContainerToken(), false); err != nil || len(plan.GetConfig().GetEnv()) != 1 {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if s.must(t, request("bob", false)); s.builds.last(t).GetContentId() == job.GetContentId() {
		t.Error("another identity would join")
	}

	frozen := s.must(t, request("ada", true))
	cold := s.builds.last(t)
	if frozen.ContainerToken != nil || frozen.Expiration != nil || !frozen.GetFreeze() || frozen.GetRequestId() == "" ||
		frozen.GetTargetImage() != "q.example/team/mine:bwa--"+cold.GetContentId() {
		t.Errorf("frozen: %v", frozen)
	}
	if cold.GetContentId() == job.GetContentId() || len(cold.GetRecipe().GetConfig().GetEnv()) != 1 {
		t.Errorf("the configuration is not baked in: %v", cold)
	}
	plan, err := s.resolve(t, frozen.GetRequestId(), false)
	if err != nil || !plan.GetFrozen() || plan.GetConfig() != nil {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: frozen.GetRequestId()}); err != nil || !d.GetFreeze() || d.GetTargetImage() != frozen.GetTargetImage() {
		t.Errorf("it is described as %v, %v", d, err)
	}
}

func TestRepositoriesOfTheService(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for repo, field := range map[string]string{
		"127.0.0.1:9090/store/builds": "buildRepository", "127.0.0.1:9090/store/builds/x": "buildRepository",
		"q.example/cache": "cacheRepository", "Q.EXAMPLE/cache/y": "cacheRepository",
	} {
		r := s.conda("bwa")
		r.BuildRepository, r.CacheRepository = "q.example/mine", "q.example/mine"
		if field == "buildRepository" {
			r.BuildRepository = repo
		} else {
			r.CacheRepository = repo
		}
		if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s as %s: %v", repo, field, err)
		}
	}
	for _, repo := range []string{"127.0.0.1:9090/store/buildsx", "127.0.0.1:9090/store", "q.example/cached"} {
		r := s.conda("bwa")
		r.BuildRepository = repo
		s.must(t, r)
	}
	r := s.conda("builds")
	r.BuildRepository, r.NameStrategy = "127.0.0.1:9090/store", "imageSuffix"
	if _, err := s.ask(t, r); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "belong to this service") {
		t.Errorf("a name that leads into ours: %v", err)
	}
}

func TestContextTravels(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	layer, gz := dataLayer(t, "content")
	r := from(s.image)
	r.BuildContext, r.CondaFile = layer, encoded("dependencies: [x]")
	s.must(t, r)
	job := s.builds.last(t)
	if string(job.GetRecipe().GetContextData()) != string(gz) || job.GetRecipe().GetContext().GetLocation() != "data:" {
		t.Errorf("the context is %v", job.GetRecipe().GetContext())
	}
	if f := job.GetRecipe().GetFiles(); len(f) != 1 || f[0].GetPath() != "conda.yml" || string(f[0].GetContent()) != "dependencies: [x]" {
		t.Errorf("the files are %v", f)
	}
	other, _ := dataLayer(t, "other content")
	r.BuildContext = other
	if s.must(t, r); s.builds.last(t).GetContentId() == job.GetContentId() {
		t.Error("the context is not part of the id")
	}
}

func TestStatusFollowsTheBuild(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	req := s.must(t, from(s.image))
	id, build := req.GetRequestId(), req.GetBuildId()
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(begin.Add(d)) }
	base := &containerv1.GetContainerStatusResponse{
		Id: &id, BuildId: &build, CreationTime: timestamppb.New(s.clock()),
		DetailsUri: proto.String("http://slipway.example.org/v1alpha1/builds/" + build),
	}
	for _, tc := range []struct {
		name string
		in   *buildv1.AwaitBuildResponse
		want *containerv1.GetContainerStatusResponse
	}{
		{"queued", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_QUEUED, CreatedAt: at(0), Position: 3},
			&containerv1.GetContainerStatusResponse{Status: proto.String("PENDING"), Position: proto.Int32(3)}},
		{"running", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_RUNNING, CreatedAt: at(0), StartedAt: at(1)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("BUILDING")}},
		{"succeeded", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, CreatedAt: at(0), CompletedAt: at(time.Minute)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(true), Duration: proto.String("60000000000")}},
		{"failed", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED, Reason: "solve", CreatedAt: at(0), CompletedAt: at(time.Second)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(false), Reason: proto.String("solve"), Duration: proto.String("1000000000")}},
	} {
		s.builds.set(build, tc.in)
		want := proto.CloneOf(base)
		proto.Merge(want, tc.want)
		if got := s.status(t, id); !proto.Equal(want, got) {
			t.Errorf("%s: got  %v\nwant %v", tc.name, got, want)
		}
	}
	if st := s.status(t, s.submit(t, nil).GetRequestId()); st.GetStatus() != "DONE" || !st.GetSucceeded() || st.BuildId != nil {
		t.Errorf("a served image: %v", st)
	}
}

func TestDeletingCancelsWhatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		remove := func(id string) {
			t.Helper()
			if _, err := s.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: id}); err != nil {
				t.Fatal(err)
			}
		}
		first, second := s.must(t, from(s.image)), s.must(t, from(s.image))
		remove(first.GetRequestId())
		if len(s.builds.cancelled) != 0 {
			t.Error("cancelled, though another request waits")
		}
		if _, err := s.resolve(t, first.GetRequestId(), true); !errors.Is(err, fault.NotFound) {
			t.Errorf("the revoked token resolves: %v", err)
		}
		remove(second.GetRequestId())
		if diff := cmp.Diff([]string{second.GetBuildId()}, s.builds.cancelled); diff != "" {
			t.Errorf("cancelled (-want +got):\n%s", diff)
		}
		s.builds.set(first.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
		remove(s.must(t, from(s.image)).GetRequestId())
		if len(s.builds.cancelled) != 1 {
			t.Error("what is built was cancelled")
		}
	})
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	dry := func() *containerv1.ContainerRequest {
		r := s.conda("bwa")
		r.DryRun = true
		return r
	}
	resp := s.must(t, dry())
	if !strings.HasSuffix(resp.GetBuildId(), "_0") || resp.GetCached() || resp.Succeeded != nil || resp.GetTargetImage() == "" || !s.builds.last(t).GetDryRun() {
		t.Errorf("got %v", resp)
	}
	if _, err := s.resolve(t, resp.GetContainerToken(), true); !errors.Is(err, fault.NotFound) {
		t.Errorf("there is nothing to pull, but the token resolves: %v", err)
	}
	s.must(t, s.conda("bwa"))
	if resp = s.must(t, dry()); !resp.GetCached() || !strings.HasSuffix(resp.GetBuildId(), "_1") {
		t.Errorf("while it is built: %v", resp)
	}
	if _, err := s.resolve(t, resp.GetContainerToken(), true); err != nil {
		t.Errorf("the token of what is built: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for _, tc := range []struct {
		name string
		from error
		kind fault.Kind
	}{
		{"quota", fault.Exhausted.Newf("Too many builds").After(time.Minute), fault.Exhausted},
		{"no worker", fault.Unsupported.Newf("No worker"), fault.Unsupported},
	} {
		s.builds.refuse = tc.from
		_, err := s.ask(t, from(s.image))
		e, ok := fault.As(err)
		want, _ := fault.As(tc.from)
		if !ok || e.Kind != tc.kind || e.Public != want.Public || e.RetryAfter != want.RetryAfter {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	for name, tc := range map[string]struct {
		change func(*containerv1.ContainerRequest)
		kind   fault.Kind
		text   string
	}{
		"Singularity": {func(r *containerv1.ContainerRequest) {
			r.Format, r.Freeze, r.BuildRepository = "sif", true, "q.example/x"
		}, fault.Unsupported, "Singularity"},
		"an image not there": {func(r *containerv1.ContainerRequest) { r.ContainerFile = encoded("FROM " + s.image + "x") }, fault.Invalid, "containerFile: " + s.image + "x does not exist"},
		"a lock not there": {func(r *containerv1.ContainerRequest) {
			r.ContainerFile, r.Packages = "", s.conda("http://"+s.up.Host+"/lock").Packages
		}, fault.Invalid, "packages.entries[0]: "},
		"a lock out of reach": {func(r *containerv1.ContainerRequest) {
			r.ContainerFile, r.Packages = "", s.conda("http://169.254.169.254/lock").Packages
		}, fault.Invalid, "packages.entries[0]: "},
	} {
		r := from(s.image)
		tc.change(r)
		if _, err := s.ask(t, r); !errors.Is(err, tc.kind) || !strings.Contains(fmt.Sprint(err), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecipeWhereNothingBuilds(t *testing.T) {
	t.Parallel()
	r := newRoom(t, testkit.SQLite(t))
	r.up.Intercept(func(http.ResponseWriter, *http.Request) bool { t.Error("an image was looked up"); return false })
	_, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: from(r.image)})
	if !errors.Is(err, fault.Unsupported) {
		t.Errorf("got %v", err)
	}
}
