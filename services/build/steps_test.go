package build_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// packages returns a request for an image of locked packages.
func (p *deployment) packages(text, records string, who *platformv1.Identity) *buildv1.SubmitBuildRequest {
	r := p.request(text, "", who)
	sum := sha256.Sum256([]byte(records))
	r.Recipe = &buildv1.Recipe{Engine: "conda", Platform: "linux/amd64", LockDigest: hex.EncodeToString(sum[:])}
	r.Lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{{Platform: proto.String("linux/amd64")}}},
		Records: []string{records}, Subdirs: []string{"linux-64"},
	}
	return r
}

// needsSteps reports that a package's script has to run on the image with a digest.
func (j takenJob) needsSteps(t *testing.T, digest string) {
	t.Helper()
	j.publish(t, buildbus.Results, j.id+".steps", &buildv1.Result{
		BuildId: j.id, Delivery: j.delivery, Ticket: j.job.GetTicket(), NeedsSteps: true, Reason: "build", Message: "The package x runs a script when it is installed",
		Digest: digest, Steps: &buildv1.Steps{ContainerFile: "FROM here\n", Files: []*buildv1.File{{Path: "links", Content: []byte("x")}}},
	})
}

// describe returns the record of a build.
func (r replica) describe(t *testing.T, id string) *buildv1.Build {
	t.Helper()
	d, err := r.DescribeBuild(t.Context(), &buildv1.DescribeBuildRequest{BuildId: id})
	if err != nil {
		t.Fatal(err)
	}
	return d.GetBuild()
}

// assembled is the digest of an image that a worker has pushed without a tag.
const assembled = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// TestLockedPackages checks that a worker gets the lock with the job, for any architecture,
// and that a build whose steps have to run continues from the image that the worker has
// pushed.
func TestLockedPackages(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	p.logins = caller.NewKeychain(map[string]upstream.Login{p.up.Host: {Username: "service", Password: "x"}}, nil).
		WithBuildRepository(caller.BuildRepository{Host: p.up.Host, Repository: "builds"})
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	req := p.packages("a", `[{"name":"samtools"}]`, nil)
	req.Recipe.ContainerFile, req.Recipe.Files = "RUN true\n", []*buildv1.File{{Path: "requirements", Content: []byte("y")}}
	r.submit(t, req)
	job := w.take(t, r, 1)
	if job.job.GetLock() != req.GetLock().GetRecords()[0] || job.job.GetRecipe().GetEngine() != "conda" {
		t.Errorf("the job is %v", job.job)
	}
	to := req.GetTarget()
	login := func(j takenJob, repository string, why buildv1.LoginPurpose) *buildv1.GetBuildCredentialsResponse {
		t.Helper()
		got, err := r.GetBuildCredentials(t.Context(), &buildv1.GetBuildCredentialsRequest{
			Ticket: j.job.GetTicket(), Registry: to.GetRegistry(), Repository: repository, Purpose: why,
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const read, push = buildv1.LoginPurpose_LOGIN_PURPOSE_READ, buildv1.LoginPurpose_LOGIN_PURPOSE_PUSH
	if got := login(job, to.GetRepository(), read); got.GetPassword() != "" {
		t.Error("the packages are put together with a login to read what they become")
	}
	if d := r.describe(t, job.id); d.ContainerFile != nil {
		t.Errorf("before its steps it is shown with %q", d.GetContainerFile())
	}
	job.needsSteps(t, assembled)
	again := w.take(t, r, 1)
	recipe := again.job.GetRecipe()
	if again.id != job.id || recipe.GetEngine() != "buildkit" || recipe.GetContainerFile() != "FROM here\nRUN true\n" || len(recipe.GetFiles()) != 2 || again.job.GetLock() != "" {
		t.Errorf("in steps it is %v", again.job)
	}
	if src := recipe.GetSource(); src.GetReference() != assembled || src.GetRepository() != to.GetRepository() || src.GetRegistry() != to.GetRegistry() {
		t.Errorf("its steps are run on %v", src)
	}
	if login(again, to.GetRepository(), push).GetPassword() == "" || login(again, to.GetRepository()+"/other", push).GetPassword() != "" {
		t.Error("steps push to the target, and to nothing beside it")
	}
	if login(again, to.GetRepository(), read).GetPassword() != "" { // a base image's ONBUILD may name any image there
		t.Error("steps get a login for images that the request does not name")
	}
	if d := r.describe(t, job.id); d.GetContainerFile() != recipe.GetContainerFile() {
		t.Errorf("in steps it is shown with %q", d.GetContainerFile())
	}
	again.succeed(t, "sha256:"+req.GetContentDigest())
	again.ended(t, r)
	if b, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: job.id}); err != nil || b.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
		t.Errorf("it ended as %v, %v", b, err)
	}
	wrong := p.packages("b", "[]", nil)
	wrong.Lock.Records[0] = "[{}]"
	if _, err := r.SubmitBuild(t.Context(), wrong); !errors.Is(err, fault.Invalid) {
		t.Errorf("another lock than the recipe's: %v", err)
	}
}

// TestNoWorkerForSteps checks that without a worker for the steps the build ends, and
// that its message names the package and the reason.
func TestNoWorkerForSteps(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	req := p.packages("a", `[{"name":"samtools"}]`, nil)
	req.Recipe.Platform = "linux/riscv64"
	r.submit(t, req)
	job := w.take(t, r, 1)
	p.sleep(20 * time.Second) // workers that were starting would have reported by now
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	job.needsSteps(t, assembled)
	job.ended(t, r)
	b, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: job.id})
	if err != nil || b.GetReason() != "build" || !strings.HasPrefix(b.GetMessage(), "The package x runs a script when it is installed. No worker") {
		t.Errorf("it ended as %v, %v", b, err)
	}
	known := p.packages("b", `[{"name":"samtools"}]`, nil)
	known.Recipe.Platform, known.Recipe.ContainerFile = "linux/riscv64", "RUN true\n"
	if _, err := r.SubmitBuild(t.Context(), known); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "riscv64") {
		t.Errorf("with steps that are known beforehand: %v", err)
	}
}

// TestStepsWithoutAnImage checks that steps on a missing image are rejected.
func TestStepsWithoutAnImage(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	r.submit(t, p.packages("a", `[{"name":"samtools"}]`, nil))
	job := w.take(t, r, 1)
	job.needsSteps(t, "latest")
	job.ended(t, r)
	if b, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: job.id}); err != nil || b.GetReason() != "build" {
		t.Errorf("it ended as %v, %v", b, err)
	}
}
