package build_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestRestoreImage checks that an image that the registry has lost is rebuilt once, with the
// complete original request.
func TestRestoreImage(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 4)
		restore := func(id string) (string, error) {
			got, err := r.RestoreImage(t.Context(), &buildv1.RestoreImageRequest{BuildId: id})
			return got.GetBuildId(), err
		}
		finish := func(id string, req *buildv1.SubmitBuildRequest) takenJob {
			t.Helper()
			job := w.take(t, r, 1)
			if job.id != id {
				t.Fatalf("the job is of %s, want %s", job.id, id)
			}
			job.succeed(t, p.push(t, req, id))
			job.ended(t, r)
			return job
		}
		req := p.request("lost", "", nil)
		req.Recipe.Context = &containerv1.Layer{GzipDigest: "sha256:" + strings.Repeat("0", 64), GzipSize: proto.Int64(4)}
		req.Recipe.ContextData = []byte("data")
		id := r.submit(t, req).GetBuildId()
		if got, err := restore(id); err != nil || got != id {
			t.Errorf("a build that runs: %s, %v; want itself", got, err)
		}
		finish(id, req)
		if got, err := restore(id); err != nil || got != id {
			t.Errorf("an image that exists: %s, %v; want its build", got, err)
		}

		p.up.Empty(t)
		again, err := restore(id)
		if err != nil || again == id {
			t.Fatalf("a lost image: %s, %v; want another build", again, err)
		}
		if got, err := restore(id); err != nil || got != again {
			t.Errorf("a second call: %s, %v; want %s", got, err, again)
		}
		finish(again, req)
		if got, err := restore(id); err != nil || got != again {
			t.Errorf("after it was built again: %s, %v; want %s", got, err, again)
		}

		// A failed build is not repeated by each pull.
		p.up.Empty(t)
		third, err := restore(again)
		if err != nil {
			t.Fatal(err)
		}
		job := w.take(t, r, 1)
		job.report(t, &buildv1.Result{Reason: "error", Message: "it fails now"})
		job.ended(t, r)
		if got, err := restore(id); err != nil || got != third {
			t.Errorf("after a failure: %s, %v; want the failed build %s", got, err, third)
		}
		p.sleep(11 * time.Minute)
		w.appear(t, 4)
		p.listens(t)
		fourth, err := restore(id)
		if err != nil || fourth == third {
			t.Fatalf("ten minutes later: %s, %v; want another build", fourth, err)
		}
		finish(fourth, req)

		// The context is stored for a week.
		p.up.Empty(t)
		if _, err := db.ExecContext(t.Context(), `DELETE FROM build_contexts`); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(id); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "its build context was deleted") {
			t.Errorf("without its context: %v", err)
		}
		if _, err := restore("0123456789abcdef_7"); !errors.Is(err, fault.NotFound) {
			t.Errorf("an unknown build: %v", err)
		}
	})
}

// TestRestorePair checks that both images of a pair and their index are rebuilt, with their
// locks.
func TestRestorePair(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	req := p.request("pair", "", nil)
	req.Recipe.Engine = "index"
	one, two := p.request("one", "", nil), p.request("two", "", nil)
	one.Lock, two.Lock = lockOf("linux/amd64", "linux-64"), lockOf("linux/arm64", "linux-aarch64")
	req.Parts = []*buildv1.SubmitBuildRequest{one, two}
	make2 := func(id string) {
		t.Helper()
		for range 2 {
			job := w.take(t, r, 1)
			part := one
			if strings.HasPrefix(job.id, two.GetContentId()) {
				part = two
			}
			job.succeed(t, p.push(t, part, job.id))
			job.ended(t, r)
		}
		testkit.Until(t, "the index to be pushed", func() error {
			if s := r.state(t, id); s.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
				return errors.New(s.String())
			}
			return nil
		})
	}
	id := r.submit(t, req).GetBuildId()
	make2(id)
	before := r.lock(t, id, "pixi").GetText()
	p.up.Empty(t)
	got, err := r.RestoreImage(t.Context(), &buildv1.RestoreImageRequest{BuildId: id})
	if err != nil || got.GetBuildId() == id {
		t.Fatalf("got %v, %v; want another build", got, err)
	}
	make2(got.GetBuildId())
	if after := r.lock(t, got.GetBuildId(), "pixi").GetText(); after != before {
		t.Errorf("the lock is %s, want %s", after, before)
	}
}

// TestRestoreSteps checks that a build with steps is rebuilt from the beginning, because the
// base image of the steps is lost as well.
func TestRestoreSteps(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 4)
	w.appear(t, 4, &buildv1.Capability{Engine: "conda", Architecture: "any"})
	req := p.packages("steps", `[{"name":"samtools"}]`, nil)
	id := r.submit(t, req).GetBuildId()
	w.take(t, r, 1).needsSteps(t, assembled)
	steps := w.take(t, r, 1)
	if got := steps.job.GetRecipe().GetEngine(); got != "buildkit" {
		t.Fatalf("the second job has the engine %q, want buildkit", got)
	}
	steps.succeed(t, p.push(t, req, id))
	steps.ended(t, r)
	p.up.Empty(t)
	got, err := r.RestoreImage(t.Context(), &buildv1.RestoreImageRequest{BuildId: id})
	if err != nil || got.GetBuildId() == id {
		t.Fatalf("got %v, %v; want another build", got, err)
	}
	again := w.take(t, r, 1)
	if recipe := again.job.GetRecipe(); again.id != got.GetBuildId() || recipe.GetEngine() != "conda" || recipe.GetLockDigest() != req.GetRecipe().GetLockDigest() {
		t.Errorf("the job of %s is %v, want the submitted recipe", again.id, recipe)
	}
}

// TestRevokedAfterRestore checks that revoking the worker that rebuilt a lost image also
// discards the names of the first build, because they resolve to the same tag.
func TestRevokedAfterRestore(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 4)
		a := p.signer(t, r, "a")
		req := p.request("lost and revoked", "", nil)
		first := r.submit(t, req).GetBuildId()
		job := w.take(t, r, 1)
		job.succeed(t, p.push(t, req, job.id))
		job.ended(t, r)
		p.up.Empty(t)
		p.sleep(time.Second)
		again, err := r.RestoreImage(t.Context(), &buildv1.RestoreImageRequest{BuildId: first})
		if err != nil {
			t.Fatal(err)
		}
		job = w.take(t, r, 1)
		job.report(t, &buildv1.Result{Succeeded: true, Digest: p.push(t, req, job.id), LayerKeys: []string{a.id()}})
		job.ended(t, r)
		if _, err := build.NewWorkerKeys(p.db).Revoke(t.Context(), "a", p.clock()); err != nil {
			t.Fatal(err)
		}
		list, err := r.ListDiscardedBuilds(t.Context(), &buildv1.ListDiscardedBuildsRequest{})
		if want := []string{first, again.GetBuildId()}; err != nil || !slices.Equal(list.GetBuildIds(), want) {
			t.Errorf("the list is %v, %v; want %v", list.GetBuildIds(), err, want)
		}
		if s := r.submit(t, req); s.GetCached() {
			t.Errorf("requested again, it is %v; want a new build", s)
		}
	})
}
