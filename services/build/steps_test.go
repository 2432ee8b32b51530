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
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// packages is a request for an image of locked packages.
func (p *deployment) packages(text, records string, who *platformv1.Identity) *buildv1.SubmitBuildRequest {
	r := p.request(text, "", who)
	sum := sha256.Sum256([]byte(records))
	r.Recipe, r.Alternative = &buildv1.Recipe{Engine: "conda", Platform: "linux/amd64", LockDigest: hex.EncodeToString(sum[:])}, r.GetRecipe()
	r.Lock = &condav1.SolvePackagesResponse{
		Answer:  &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{{Platform: proto.String("linux/amd64")}}},
		Records: []string{records}, Subdirs: []string{"linux-64"},
	}
	return r
}

// needsSteps reports what a package's script means.
func (j taken) needsSteps(t *testing.T) {
	t.Helper()
	j.publish(t, buildbus.Results, j.id+".steps", &buildv1.Result{
		BuildId: j.id, Delivery: j.delivery, Ticket: j.job.GetTicket(), NeedsSteps: true, Reason: "build", Message: "The package x runs a script when it is installed",
	})
}

// TestLockedPackages: a worker gets the lock with the job, for any architecture; and a
// build goes on in steps where something has to be run.
func TestLockedPackages(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p.bus, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	req := p.packages("a", `[{"name":"samtools"}]`, nil)
	r.submit(t, req)
	job := w.take(t, r, 1)
	if job.job.GetLock() != req.GetLock().GetRecords()[0] || job.job.GetRecipe().GetEngine() != "conda" {
		t.Errorf("the job is %v", job.job)
	}
	job.needsSteps(t)
	again := w.take(t, r, 1)
	if again.id != job.id || again.job.GetRecipe().GetEngine() != "buildkit" || !strings.Contains(again.job.GetRecipe().GetContainerFile(), "FROM scratch") || again.job.GetLock() != "" {
		t.Errorf("in steps it is %v", again.job)
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

// TestNobodyBuildsInSteps: the build ends, and says which package it is and why.
func TestNobodyBuildsInSteps(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p.bus, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	req := p.packages("a", `[{"name":"samtools"}]`, nil)
	req.Alternative.Platform = "linux/riscv64"
	r.submit(t, req)
	job := w.take(t, r, 1)
	p.sleep(20 * time.Second) // workers that are on their way would have been heard
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	job.needsSteps(t)
	job.ended(t, r)
	b, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: job.id})
	if err != nil || b.GetReason() != "build" || !strings.HasPrefix(b.GetMessage(), "The package x runs a script when it is installed. No worker") {
		t.Errorf("it ended as %v, %v", b, err)
	}
}
