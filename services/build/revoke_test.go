package build_test

import (
	"slices"
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestRevokedImagesAreDiscarded checks that images that a revoked worker built, and images
// that were built from these, are neither found by their records nor recognised by their
// annotations, until another worker has built them.
func TestRevokedImagesAreDiscarded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, testDiscarded)
}

func testDiscarded(t *testing.T, db *sqldb.DB) {
	p := newDeployment(t, db)
	r := p.replica(t, 100)
	a, b := p.signer(t, r, "a"), p.signer(t, r, "b")
	w := newSifWorker(t, p)
	made := map[string]string{} // digests by build id
	make1 := func(req *buildv1.SubmitBuildRequest, keys ...string) (id, digest string) {
		t.Helper()
		id = r.submit(t, req).GetBuildId()
		job := w.take(t, r, 1)
		if job.id != id {
			t.Fatalf("the job is %s, want %s", job.id, id)
		}
		digest = p.push(t, req, job.id)
		made[id] = digest
		job.report(t, &buildv1.Result{Succeeded: true, Digest: digest, LayerKeys: keys})
		job.ended(t, r)
		return id, digest
	}
	signed, digest := make1(p.request("signed by a", "", nil), a.id())
	from := p.request("FROM it", "", nil)
	from.GivenImages = []*containerv1.Source{{Registry: p.up.Host, Repository: "builds", Reference: digest}}
	child, _ := make1(from)
	including := p.request("includes a layer", "", nil)
	including.Recipe.Config = &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{IncludedFrom: &containerv1.LayerOrigin{BuildId: child}}}}
	grandchild, _ := make1(including)
	sif := p.sif("signed by a")
	sifID, _ := make1(sif)
	kept, _ := make1(p.request("signed by b", "", nil), b.id())

	keys := build.NewWorkerKeys(p.db)
	images, err := keys.Revoke(t.Context(), "a", p.clock())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range images {
		got = append(got, i.BuildID)
		if i.Digest != made[i.BuildID] {
			t.Errorf("the digest of %s is %s, want %s", i.BuildID, i.Digest, made[i.BuildID])
		}
	}
	want := []string{sifID, grandchild, child, signed}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Fatalf("the images are of %v, want %v", got, want)
	}
	list, err := r.ListDiscardedBuilds(t.Context(), &buildv1.ListDiscardedBuildsRequest{})
	if err != nil || !slices.Equal(list.GetBuildIds(), got) {
		t.Errorf("the list is %v, %v; want %v", list, err, got)
	}
	if list, err = r.ListDiscardedBuilds(t.Context(), &buildv1.ListDiscardedBuildsRequest{After: got[3]}); err != nil || len(list.GetBuildIds()) > 0 {
		t.Errorf("the last page is %v, %v", list, err)
	}
	for _, id := range got {
		if s := r.state(t, id); s.GetState() != buildv1.BuildState_BUILD_STATE_FAILED || s.GetReason() != "revoked" || !strings.Contains(s.GetMessage(), "again") {
			t.Errorf("the build %s is %v", id, s)
		}
	}
	if s := r.submit(t, p.request("signed by b", "", nil)); s.GetBuildId() != kept || !s.GetCached() {
		t.Errorf("another worker's image is %v", s)
	}
	// The image still is in the registry, with the annotations by which it is recognised.
	again := r.submit(t, p.request("signed by a", "", nil))
	if again.GetCached() || again.GetBuildId() == signed {
		t.Fatalf("requested again, it is %v", again)
	}
	job := w.take(t, r, 1)
	job.succeed(t, digest) // Conda images have the same digest on every worker
	job.ended(t, r)
	if s := r.submit(t, p.request("signed by a", "", nil)); !s.GetSucceeded() {
		t.Errorf("the image that was built again is %v", s)
	}
	if list, err = r.ListDiscardedBuilds(t.Context(), &buildv1.ListDiscardedBuildsRequest{}); err != nil || len(list.GetBuildIds()) != 4 {
		t.Errorf("the list is %v, %v after another build: names of the old one are served again", list, err)
	}
	if _, err := p.db.ExecContext(t.Context(), `DELETE FROM build_builds WHERE id = $1`, again.GetBuildId()); err != nil {
		t.Fatal(err)
	}
	if s := r.submit(t, p.request("signed by a", "", nil)); !s.GetSucceeded() {
		t.Errorf("the image that was built again is not recognised: %v", s)
	}
}

// TestJobsOfRevokedWorker checks that another worker gets the job of a revoked worker, and
// that reports of the revoked worker are ignored.
func TestJobsOfRevokedWorker(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 2)
		lied := p.request("another digest", "", nil)
		lie := r.submit(t, lied).GetBuildId()
		job := w.take(t, r, 1)
		p.push(t, lied, job.id)
		job.succeed(t, "sha256:"+strings.Repeat("1", 64))
		job.ended(t, r)
		req := p.request("interrupted", "", nil)
		id := r.submit(t, req).GetBuildId()
		first := w.take(t, r, 1)
		if images, err := build.NewWorkerKeys(p.db).Revoke(t.Context(), "test", p.clock()); err != nil || len(images) != 1 || images[0].BuildID != lie {
			t.Fatalf("revoking gives %v, %v", images, err)
		}
		first.succeed(t, p.push(t, p.request("poison", "", nil), first.id))
		r.service.Sweep(t.Context())
		second := w.take(t, r, 1)
		if second.id != id || second.job.GetTicket() == first.job.GetTicket() {
			t.Fatalf("the second job is %s with the ticket %s", second.id, second.job.GetTicket())
		}
		if s := r.submit(t, lied); s.GetCached() || s.GetBuildId() == lie {
			t.Errorf("an image with another digest than reported is %v", s)
		}
		want := p.push(t, req, id)
		second.succeed(t, want)
		second.ended(t, r)
		if s := r.state(t, id); s.GetDigest() != want || s.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			t.Errorf("the build is %v, want the digest %s", s, want)
		}
	})
}

// TestRevokedWhileBuildsRun checks that a build that reads a discarded image fails, and that
// a build that used a layer of the revoked worker is queued again.
func TestRevokedWhileBuildsRun(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		a := p.signer(t, r, "a")
		w := newWorker(t, p, 8)
		base := p.request("base", "", nil)
		r.submit(t, base)
		job := w.take(t, r, 1)
		digest := p.push(t, base, job.id)
		job.report(t, &buildv1.Result{Succeeded: true, Digest: digest, LayerKeys: []string{a.id()}})
		job.ended(t, r)

		reads, takes := p.request("reads it", "", nil), p.request("takes a layer", "", nil)
		reads.GivenImages = []*containerv1.Source{{Registry: p.up.Host, Repository: "builds", Reference: digest}}
		reading := r.submit(t, reads).GetBuildId()
		running := w.take(t, r, 1)
		taking := r.submit(t, takes).GetBuildId()
		layered := w.take(t, r, 1)
		if _, err := build.NewWorkerKeys(p.db).Revoke(t.Context(), "a", p.clock()); err != nil {
			t.Fatal(err)
		}
		running.succeed(t, p.push(t, reads, reading))
		layered.report(t, &buildv1.Result{Succeeded: true, Digest: p.push(t, takes, taking), LayerKeys: []string{a.id()}})
		again := w.take(t, r, 1)
		if again.id != taking {
			t.Fatalf("the next job is %s, want %s", again.id, taking)
		}
		r.service.Sweep(t.Context())
		if s := r.state(t, reading); s.GetState() != buildv1.BuildState_BUILD_STATE_FAILED || s.GetReason() != "revoked" {
			t.Errorf("the build that reads the image is %v", s)
		}
		again.succeed(t, p.push(t, takes, taking))
		again.ended(t, r)
		if s := r.state(t, taking); s.GetState() != buildv1.BuildState_BUILD_STATE_SUCCEEDED {
			t.Errorf("the build that is queued again is %v", s)
		}
		if images, err := build.NewWorkerKeys(p.db).Revoke(t.Context(), "a", p.clock()); err != nil || len(images) > 0 {
			t.Errorf("revoking the worker again discards %v, %v", images, err)
		}
	})
}
