package container_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/testkit"
)

// base returns the digest of the base image of the newest build.
func (s *site) base(t *testing.T) string {
	t.Helper()
	return s.builds.last(t).GetRecipe().GetSource().GetReference()
}

// moveBase moves the tag of the site's base image to another image. If gone is set, it
// deletes the previous image.
func (s *site) moveBase(t *testing.T, gone bool) {
	t.Helper()
	old := s.base(t)
	s.up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	if !gone {
		return
	}
	s.up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, old) {
			http.NotFound(w, r)
			return true
		}
		return false
	})
}

// TestBaseImageOfALock checks that a stored lock keeps its base image while the image exists,
// and that the packages are solved again, for all callers, after the image was deleted.
func TestBaseImageOfALock(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	first := s.must(t, s.packages("samtools", "bwa"))
	old := s.base(t)
	s.moveBase(t, false)
	s.builds.forget(first.GetBuildId()) // its image was deleted
	if s.must(t, as("ada", s.packages("samtools", "bwa"))); s.base(t) != old || len(conda.asked) != 1 {
		t.Errorf("after the tag moved the base is %s, solved %d times", s.base(t), len(conda.asked))
	}
	s.moveBase(t, true)
	if again := s.must(t, s.packages("samtools", "bwa")); again.GetBuildId() != first.GetBuildId() {
		t.Errorf("an image that exists is now %v", again)
	}
	s.builds.forget(first.GetBuildId())
	s.must(t, as("ada", s.packages("samtools", "bwa")))
	if s.base(t) == old || len(conda.asked) != 2 {
		t.Fatalf("without its base image the base is %s, solved %d times", s.base(t), len(conda.asked))
	}
	renewed := s.base(t)
	if p := s.builds.last(t).GetPreface(); !strings.Contains(p, "resolved again, since the base image") || !strings.Contains(p, old) {
		t.Errorf("its log begins with %q", p)
	}
	for _, who := range []string{"", "bob"} {
		if s.must(t, as(who, s.packages("samtools", "bwa"))); s.base(t) != renewed || len(conda.asked) != 2 {
			t.Errorf("for %q the base is %s, solved %d times", who, s.base(t), len(conda.asked))
		}
	}
}

// TestLockOfAFailedImage checks that packages are solved again after a build of their lock
// failed, and only if the lock can be the reason.
func TestLockOfAFailedImage(t *testing.T) {
	t.Parallel()
	for reason, solves := range map[string]int{"build": 2, "push": 1, "timeout": 1, "memory": 1, "cancelled": 1, "internal": 1} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			conda := &solver{answer: solvedTo()}
			s := newSolvedSite(t, conda, time.Minute)
			first := s.must(t, s.packages("samtools", "bwa"))
			s.builds.fail(first.GetBuildId(), reason)
			s.must(t, as("ada", s.packages("samtools", "bwa")))
			if len(conda.asked) != solves {
				t.Errorf("solved %d times", len(conda.asked))
			}
			if p := s.builds.last(t).GetPreface(); strings.Contains(p, "resolved again") != (solves > 1) {
				t.Errorf("its log begins with %q", p)
			}
		})
	}
}

// TestFailedStepsDoNotRenewOtherLocks checks that a request whose own commands fail cannot
// change the packages of other requests.
func TestFailedStepsDoNotRenewOtherLocks(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSite(t, conda, time.Minute)
	plain := s.must(t, s.packages("samtools", "bwa"))
	broken := s.packages("samtools", "bwa")
	broken.Packages.CondaOpts.Commands = []string{"RUN false"}
	failed := s.must(t, as("ada", broken))
	s.builds.fail(failed.GetBuildId(), "build")
	conda.set(solvedTo(func(r *condav1.SolvePackagesResponse) { r.Records[0] += " " }))
	s.must(t, as("ada", broken))
	if len(conda.asked) != 2 {
		t.Errorf("solved %d times", len(conda.asked))
	}
	if again := s.must(t, as("bob", s.packages("samtools", "bwa"))); again.GetBuildId() != plain.GetBuildId() || len(conda.asked) != 2 {
		t.Errorf("the response for another caller is %v, solved %d times", again, len(conda.asked))
	}
}

// TestBaseOfAnotherPlatform checks that the digest of a base image is looked up when its
// platform is first requested, and not taken from a lock for another platform.
func TestBaseOfAnotherPlatform(t *testing.T) {
	t.Parallel()
	s := newSolvedSite(t, &solver{answer: solvedTo()}, time.Minute)
	s.must(t, s.packages("samtools", "bwa"))
	old := s.base(t)
	s.moveBase(t, true)
	arm := s.packages("samtools", "bwa")
	arm.ContainerPlatform = "linux/arm64"
	s.must(t, as("ada", arm)) // Ada looks up the tag for the first time
	if got := s.base(t); got == old || digest.Digest(got).Validate() != nil {
		t.Errorf("for arm64 it is on %s", got)
	}
}
