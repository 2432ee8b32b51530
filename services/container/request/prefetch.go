package request

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// checkPrefetch validates the paths of files that are fetched first
// (gateway/contract/container-service.md#files-that-are-fetched-first).
func checkPrefetch(r *containerv1.ContainerRequest) error {
	paths := r.GetSociPrefetch()
	if len(paths) > 0 && !r.GetSoci() {
		return fault.Invalid.Newf("sociPrefetch is a part of a SOCI index: set soci, or leave sociPrefetch out")
	}
	for i, p := range paths {
		switch {
		case len(p) > limits.SociPrefetchPath:
			return fault.Invalid.Newf("sociPrefetch[%d] is %d characters long; the maximum is %d", i, len(p), limits.SociPrefetchPath)
		case !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/":
			return fault.Invalid.Newf("sociPrefetch[%d] must be the absolute path of a file without . and .., for example /opt/conda/bin/python, not %q", i, fault.Quote(p))
		case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
			return fault.Invalid.Newf("sociPrefetch[%d] has control characters: %q", i, fault.Quote(p))
		}
	}
	return nil
}

// prefetchOf returns the paths for a recipe, sorted and each once: their order has no effect. A Singularity
// image has none.
func prefetchOf(r *containerv1.ContainerRequest) []string {
	if !r.GetSoci() || r.GetFormat() == FormatSif {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(r.GetSociPrefetch())))
}
