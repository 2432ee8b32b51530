package build_test

import (
	"strings"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/testkit"
)

// TestCachesOfOthers checks that a build only imports the newest cache that a build of the
// same owner exported for the same platform and repository.
func TestCachesOfOthers(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 100)
	w := newWorker(t, p, 1)
	ada, eve := &platformv1.Identity{Endpoint: "e", UserId: 7}, &platformv1.Identity{Endpoint: "e", UserId: 8}
	first, second := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	for _, tc := range []struct {
		name       string
		who        *platformv1.Identity
		scope      string
		platform   string
		repository string
		result     *buildv1.Result
		want       string // the cache that it is to import
	}{
		{"first", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Succeeded: true, Digest: first, CacheDigest: first}, ""},
		{"another's", eve, "eeee", "linux/amd64", "quay.test/cache", &buildv1.Result{Succeeded: true, Digest: first, CacheDigest: second}, ""},
		{"a failure", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Reason: "build", CacheDigest: second}, first},
		{"a tag", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Succeeded: true, Digest: first, CacheDigest: "latest"}, first},
		{"none", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Succeeded: true, Digest: first}, first},
		{"another scope", ada, "", "linux/amd64", "quay.test/cache", &buildv1.Result{Reason: "build"}, ""},
		{"another platform", ada, "aaaa", "linux/arm64", "quay.test/cache", &buildv1.Result{Reason: "build"}, ""},
		{"another repository", ada, "aaaa", "linux/amd64", "quay.test/caches", &buildv1.Result{Reason: "build"}, ""},
		{"no repository", ada, "aaaa", "linux/amd64", "", &buildv1.Result{Succeeded: true, Digest: first, CacheDigest: second}, ""},
		{"still none", ada, "aaaa", "linux/amd64", "", &buildv1.Result{Reason: "build"}, ""},
		{"a newer one", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Succeeded: true, Digest: first, CacheDigest: second}, first},
		{"last", ada, "aaaa", "linux/amd64", "quay.test/cache", &buildv1.Result{Reason: "build"}, second},
	} {
		req := p.request(tc.name, tc.scope, tc.who)
		req.Recipe.Platform, req.Target.CacheRepository = tc.platform, tc.repository
		r.submit(t, req)
		j := w.take(t, r, 1)
		if got := j.job.GetCacheDigest(); got != tc.want {
			t.Errorf("%s: it imports %q, want %q", tc.name, got, tc.want)
		}
		j.report(t, tc.result)
		j.ended(t, r)
	}
}
