package store

import (
	"testing"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestCachesAreApart checks that owners, scopes and compressions have separate caches,
// whose names never change.
func TestCachesAreApart(t *testing.T) {
	t.Parallel()
	level := int32(0)
	rec := func(owner, scope string, c *containerv1.Compression) Record {
		return Record{Owner: owner, Request: &buildv1.SubmitBuildRequest{Scope: scope, Recipe: &buildv1.Recipe{Compression: c}}}
	}
	seen := map[string]string{}
	for name, r := range map[string]Record{
		"one": rec("a", "", nil), "another owner": rec("b", "", nil), "another scope": rec("a", "s", nil),
		"zstd": rec("a", "", &containerv1.Compression{Mode: "zstd"}), "forced": rec("a", "", &containerv1.Compression{Mode: "zstd", Force: true}),
		"gzip at 0": rec("a", "", &containerv1.Compression{Mode: "gzip", Level: &level}), "gzip": rec("a", "", &containerv1.Compression{Mode: "gzip"}),
	} {
		if other, ok := seen[r.CacheScope()]; ok {
			t.Errorf("%s has the caches of %s", name, other)
		}
		seen[r.CacheScope()] = name
	}
	if seen[digest.FromString("a\n").Encoded()[:16]] != "one" {
		t.Error("caches that are there are not found again")
	}
}
