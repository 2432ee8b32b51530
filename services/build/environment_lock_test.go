package build_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// environment returns a request for an environment without an image.
func (p *deployment) environment(text, scope string) *buildv1.SubmitBuildRequest {
	r := p.request(text, scope, nil)
	r.Lock = lockOf("linux/amd64", "linux-64")
	r.Recipe = &buildv1.Recipe{Engine: "conda", Format: "environment", Platform: "linux/amd64", LockDigest: lockDigest()}
	return r
}

// lockDigest returns the digest of the lock of all environments.
func lockDigest() string {
	return digest.FromString(lockOf("linux/amd64", "linux-64").GetRecords()[0]).Encoded()
}

// hasEnvironments checks which builds of the environment are found in a scope.
func (r replica) hasEnvironments(t *testing.T, when, scope string, want ...string) {
	t.Helper()
	got, err := r.FindEnvironments(t.Context(), &buildv1.FindEnvironmentsRequest{LockDigest: lockDigest(), Scope: scope})
	if err != nil || !slices.Equal(got.GetBuildIds(), want) {
		t.Errorf("%s the builds in the scope %q are %v, %v, want %v", when, scope, got.GetBuildIds(), err, want)
	}
}

// TestEnvironmentsOfLocks checks which builds are found by the lock of an environment: those that have made it, then those
// that have not ended, but none that has failed, has no environment, or belongs to another identity.
func TestEnvironmentsOfLocks(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		const scope = "5c0be5c0be5c0be5"
		p := newDeployment(t, db)
		r, w := p.replica(t, 100), newWorker(t, p, 1)
		w.appear(t, 1, canConda)
		r.hasEnvironments(t, "without builds", "")
		r.submit(t, p.environment("fails", ""))
		j := w.take(t, r, 1)
		r.hasEnvironments(t, "while it is made", "", j.id)
		j.report(t, &buildv1.Result{Reason: "build"})
		j.ended(t, r)
		r.hasEnvironments(t, "after it failed", "")

		artifact := testkit.Image(t, "arm64", true)
		p.up.Push(t, "builds:artifact", artifact)
		pushed, err := artifact.Digest()
		if err != nil {
			t.Fatal(err)
		}
		made := p.environment("made", "")
		r.submit(t, made)
		j = w.take(t, r, 1)
		j.report(t, &buildv1.Result{Succeeded: true, Digest: p.push(t, made, j.id), Environment: pushed.String()})
		j.ended(t, r)
		r.hasEnvironments(t, "once it exists", "", j.id)

		p.sleep(time.Minute)
		w.appear(t, 1, canConda)
		pending := r.submit(t, p.environment("pending", "")).GetBuildId()
		private := r.submit(t, p.environment("private", scope)).GetBuildId()
		image := p.environment("image", "")
		image.Recipe.Format = "oci"
		r.submit(t, image)
		r.hasEnvironments(t, "with pending builds", "", j.id, pending)
		got, err := r.FindEnvironments(t.Context(), &buildv1.FindEnvironmentsRequest{LockDigest: lockDigest(), Scope: scope})
		if ids := got.GetBuildIds(); err != nil || len(ids) != 3 || ids[0] != j.id || !slices.Contains(ids, private) {
			t.Errorf("the owner of %s has %v, %v", private, ids, err)
		}
		r.hasEnvironments(t, "for another user", "0123456789abcdef", j.id, pending)

		// A replica of the earlier release stores no lock: it is noted when the environment is requested again.
		if _, err := db.ExecContext(t.Context(), `UPDATE build_builds SET lock_digest = ''`); err != nil {
			t.Fatal(err)
		}
		r.hasEnvironments(t, "of an earlier release", "")
		if again := r.submit(t, made); again.GetBuildId() != j.id || !again.GetSucceeded() {
			t.Errorf("requested again it is %v", again)
		}
		r.hasEnvironments(t, "once requested again", "", j.id)
	})
}

// TestEnvironmentOfLaterLock checks that a build whose packages are solved after its request is found from then on.
func TestEnvironmentOfLaterLock(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		newWorker(t, p, 1).appear(t, 1, canConda)
		req := p.unsolved("samtools", nil)
		req.Recipe.Mount = true
		id := r.submit(t, req).GetBuildId()
		r.hasEnvironments(t, "before it is solved", "")
		r.claim(t)
		r.solve(t, &buildv1.SolveBuildRequest{BuildId: id, Lock: lockOf("linux/amd64", "linux-64"), Preface: "Conda: resolved"})
		r.hasEnvironments(t, "once it is solved", "", id)
	})
}

// TestMalformedLockDigest checks that only the digests of locks are looked up.
func TestMalformedLockDigest(t *testing.T) {
	t.Parallel()
	r := newDeployment(t, testkit.SQLite(t)).replica(t, 1)
	for _, bad := range []string{"", "x", "sha256:" + lockDigest(), lockDigest()[1:]} {
		if _, err := r.FindEnvironments(t.Context(), &buildv1.FindEnvironmentsRequest{LockDigest: bad}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
