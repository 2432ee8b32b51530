package buildkit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/engine/buildkit/buildkittest"
	"slipway.dev/services/internal/testkit"
)

// TestBuildKitImportsCaches checks that a new daemon uses what another daemon exported to a
// cache repository, and not what another user has put there instead.
func TestBuildKitImportsCaches(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	keep := func(id, dockerfile, cache string) (digest string, cached bool) {
		t.Helper()
		job := w.Job(id, dockerfile)
		job.Target.CacheRepository, job.CacheDigest = w.To.Host+"/cache/shared", cache
		job.Exported = func(d string) { digest = d }
		_, out, err := w.Build(t, job)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return digest, !strings.Contains(out.String(), "ran-42")
	}
	const x, y = "FROM BASE\nRUN echo x > /x; echo ran-$((40+2))\n", "FROM BASE\nRUN echo y > /y; echo ran-$((40+2))\n"
	first, cached := keep("first", x, "")
	if first == "" || cached {
		t.Fatalf("the cache is %q, found: %t", first, cached)
	}
	// Another user's cache, which has the tag from now on.
	other, _ := keep("other", y, "")
	tags, err := registry.List(mustRepo(t, w.To.Host+"/cache/shared"), registry.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil || len(tags) != 1 {
		t.Fatalf("the cache's tags are %v, %v", tags, err)
	}
	if d := w.Pull(t, "cache/shared:"+tags[0]); d.Digest.String() != other {
		t.Fatalf("the tag is %s", d.Digest)
	}
	w.Start(t)
	if _, cached := keep("replaced", y, first); cached {
		t.Error("it was taken by its tag")
	}
	w.Start(t)
	if _, cached := keep("none", y, ""); cached {
		t.Error("it was taken though no build has kept it")
	}
	w.Start(t)
	if _, cached := keep("recorded", x, first); !cached {
		t.Error("the build's own cache was not found")
	}
	// A registry that returns another user's cache for the digest.
	evil := w.Pull(t, "cache/shared@"+other).Manifest
	w.To.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/cache/shared/manifests/"+first) {
			return false
		}
		rw.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		rw.Header().Set("Docker-Content-Digest", first)
		_, _ = rw.Write(evil)
		return true
	})
	w.Start(t)
	if _, cached := keep("forged", y, first); cached {
		t.Error("what has another digest was taken")
	}
	w.To.Intercept(nil)
	w.Start(t)
	if _, cached := keep("gone", x, digest.FromString("gone").String()); cached {
		t.Error("a cache was found that is not there")
	}
}

// TestBuildKitReportsUnstoredCache checks that a registry which rejects layers does not
// affect the image, and that the log reports it.
func TestBuildKitReportsUnstoredCache(t *testing.T) {
	w := buildkittest.NewFixture(t, buildkittest.Setup{})
	w.To.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || !strings.Contains(r.URL.Path, "/cache/closed/") {
			return false
		}
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	job := w.Job("closed_1", "FROM BASE\nRUN echo x > /x\n")
	job.Target.CacheRepository = w.To.Host + "/cache/closed"
	_, out, err := w.Build(t, job)
	if daemonError := "The layers were not stored in " + job.Target.CacheRepository; err != nil || strings.Count(out.String(), daemonError) != 1 {
		t.Errorf("%v, want %q once in\n%s", err, daemonError, out.String())
	}
}
