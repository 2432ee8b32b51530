package container_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

func TestRecipeIsBuiltOnce(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		first := s.must(t, s.conda("samtools=1.20"))
		job := s.builds.last(t)
		id := job.GetContentId()
		image := "127.0.0.1:9090/store/builds:samtools-1.20--" + id
		want := &containerv1.SubmitContainerResponse{
			RequestId: proto.String(fmt.Sprintf("%x", sha256.Sum256([]byte(first.GetContainerToken())))), ContainerToken: first.ContainerToken, Expiration: first.GetExpiration(),
			TargetImage:    proto.String("slipway.example.org/wt/" + first.GetContainerToken() + "/store/builds:samtools-1.20--" + id),
			ContainerImage: proto.String(image), BuildId: proto.String(id + "_1"),
			Cached: proto.Bool(false), Freeze: proto.Bool(false), Mirror: proto.Bool(false),
		}
		if !proto.Equal(want, first) {
			t.Errorf("got  %v\nwant %v", first, want)
		}
		if job.GetScope() != "" || len(job.GetRepositories()) != 0 || job.GetRecipe().GetEngine() != "buildkit" || job.GetRecipe().GetPlatform() != "linux/amd64" {
			t.Errorf("the build request is %v", job)
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
			t.Errorf("for an existing image: %v", third)
		}
		if plan, err := s.resolve(t, third.GetContainerToken(), true); err != nil || !plan.GetBuilt() {
			t.Errorf("the plan of an existing image is %v, %v", plan, err)
		}
		if d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: first.GetContainerToken()}); err != nil || d.GetBuildId() != id+"_1" {
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
		if want := "slipway.example.org/wt/" + resp.GetContainerToken() + "/store/" + tc.want + s.builds.last(t).GetContentId(); resp.GetTargetImage() != want {
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
	if plan, err := s.resolve(t, resp.GetContainerToken(), false); err != nil || !plan.GetFrozen() || plan.GetConfig() != nil {
		t.Errorf("the plan is %v, %v", plan, err)
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
		DetailsUri: proto.String("http://slipway.example.org/view/builds/" + build),
	}
	for _, tc := range []struct {
		name string
		in   *buildv1.AwaitBuildResponse
		want *containerv1.GetContainerStatusResponse
	}{
		{"queued", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_QUEUED, CreatedAt: at(0), Position: 3, ExpectedStart: new(0.0), ExpectedEnd: new(7.5)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("PENDING"), Position: proto.Int32(3), ExpectedStart: new(0.0), ExpectedEnd: new(7.5)}},
		{"running", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_RUNNING, CreatedAt: at(0), StartedAt: at(1)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("BUILDING")}},
		{"succeeded", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, CreatedAt: at(0), CompletedAt: at(time.Minute)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(true), Duration: proto.String("60000000000")}},
		{"failed", &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED, Reason: "solve", Message: "why\n  because", Summary: "why because", CreatedAt: at(0), CompletedAt: at(time.Second)},
			&containerv1.GetContainerStatusResponse{Status: proto.String("DONE"), Succeeded: proto.Bool(false), Reason: proto.String("why because"), ReasonCode: proto.String("solve"), Message: proto.String("why\n  because"), Duration: proto.String("1000000000")}},
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

func TestDeletingCancelsUnusedBuilds(t *testing.T) {
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
		remove(first.GetContainerToken())
		if len(s.builds.cancelled) != 0 {
			t.Error("cancelled, though another request waits")
		}
		if _, err := s.resolve(t, first.GetContainerToken(), true); !errors.Is(err, fault.NotFound) {
			t.Errorf("the revoked token resolves: %v", err)
		}
		remove(second.GetContainerToken())
		if diff := cmp.Diff([]string{second.GetBuildId()}, s.builds.cancelled); diff != "" {
			t.Errorf("cancelled (-want +got):\n%s", diff)
		}
		s.builds.set(first.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED})
		remove(s.must(t, from(s.image)).GetContainerToken())
		if len(s.builds.cancelled) != 1 {
			t.Error("what is built was cancelled")
		}
	})
}

// TestDeletingCancelsUnusedParts deletes requests whose results are made from
// other builds, one of which another request awaits.
func TestDeletingCancelsUnusedParts(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	part := s.must(t, from(s.image))
	whole := s.must(t, from(s.image+"\n# more"))
	s.builds.parts = map[string][]string{whole.GetBuildId(): {part.GetBuildId(), "nobody_1"}}
	if _, err := s.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: whole.GetContainerToken()}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{whole.GetBuildId(), "nobody_1"}, s.builds.cancelled); diff != "" {
		t.Errorf("cancelled (-want +got):\n%s", diff)
	}
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
	if resp = s.must(t, dry()); !resp.GetCached() || !strings.HasSuffix(resp.GetBuildId(), "_0") {
		t.Errorf("while it is built: %v", resp)
	}
	if _, err := s.resolve(t, resp.GetContainerToken(), true); err != nil {
		t.Errorf("the token of what is built: %v", err)
	}
}

// TestBuildsOfTheDeprecatedPath checks that the response names a build that it has started.
func TestBuildsOfTheDeprecatedPath(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	ask := func() string {
		resp, err := s.SubmitContainerToken(t.Context(), &containerv1.SubmitContainerTokenRequest{Request: from(s.image)})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetBuildId()
	}
	if id := ask(); !strings.HasSuffix(id, "_1") {
		t.Errorf("the first started %q", id)
	}
	if id := ask(); id != "" {
		t.Errorf("the second started %q", id)
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
		"Singularity without credentials": {func(r *containerv1.ContainerRequest) {
			r.Format, r.Freeze, r.BuildRepository = "sif", true, "q.example/x"
		}, fault.Invalid, "your own credentials"},
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

func TestWithoutBuildWorkers(t *testing.T) {
	t.Parallel()
	r := newHarness(t, testkit.SQLite(t))
	r.up.Intercept(func(http.ResponseWriter, *http.Request) bool { t.Error("an image was looked up"); return false })
	for says, req := range map[string]*containerv1.ContainerRequest{
		"does not build images":  from(r.image),
		"no Singularity images":  {ContainerImage: r.image, Format: "sif"},
		"does not freeze images": {ContainerImage: r.image, Freeze: true, BuildRepository: "quay.io/x/y"},
	} {
		_, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: req})
		if !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
