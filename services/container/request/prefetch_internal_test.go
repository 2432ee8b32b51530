package request

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/internal/limits"
)

func TestCheckPrefetch(t *testing.T) {
	t.Parallel()
	many := slices.Repeat([]string{"/a"}, limits.SociPrefetch+1)
	for _, tc := range []struct {
		soci  bool
		paths []string
		want  string // a part of the error; "" for none
	}{
		{true, []string{"/opt/conda/bin/python", "/a b", "/ä"}, ""},
		{true, nil, ""},
		{false, nil, ""},
		{false, []string{"/a"}, "sociPrefetch is a part of a SOCI index"},
		{true, []string{"/a", "b"}, `sociPrefetch[1] must be the absolute path of a file without . and .., for example /opt/conda/bin/python, not "b"`},
		{true, []string{""}, "sociPrefetch[0] must be the absolute path"},
		{true, []string{"/"}, "sociPrefetch[0] must be the absolute path"},
		{true, []string{"/a/../b"}, "sociPrefetch[0] must be the absolute path"},
		{true, []string{"/a/"}, "sociPrefetch[0] must be the absolute path"},
		{true, []string{"/a\nb"}, "sociPrefetch[0] has control characters"},
		{true, []string{"/" + strings.Repeat("a", limits.SociPrefetchPath)}, "sociPrefetch[0] is 1025 characters long; the maximum is 1024"},
		{true, many, "sociPrefetch has 2001 entries; the maximum is 2000"},
		{true, slices.Repeat([]string{"/" + strings.Repeat("a", 1000)}, 200), "sociPrefetch is 200399 characters long; the maximum is 131072"},
	} {
		r := &containerv1.ContainerRequest{ContainerImage: "ubuntu", Freeze: true, BuildRepository: "q.example/a", Soci: tc.soci, SociPrefetch: tc.paths}
		raw, err := protojson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again := &containerv1.ContainerRequest{}
		if err := protojson.Unmarshal(raw, again); err != nil || !proto.Equal(r, again) {
			t.Fatal(err)
		}
		_, err = Parse(again, func(string, string) bool { return false })
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100q: %v", tc.paths, err)
		}
	}
}

// TestPrefetchIsPartOfTheImage checks that the paths, but not their order, change the image, and that a Singularity
// image has none.
func TestPrefetchIsPartOfTheImage(t *testing.T) {
	t.Parallel()
	to := Destination{Registry: "r", Repository: "x"}
	of := func(format string, paths ...string) string {
		got := prefetchOf(&containerv1.ContainerRequest{Soci: true, SociPrefetch: paths, Format: format})
		return ContentDigest(&buildv1.Recipe{Engine: "conda", Soci: true, SociPrefetch: got}, to)
	}
	if of("", "/a", "/b") != of("", "/b", "/a", "/b") || of("sif", "/a") != of("") {
		t.Error("the same files give several images")
	}
	seen := map[string]bool{of(""): true, of("", "/a"): true, of("", "/b"): true, of("", "/a", "/b"): true}
	if len(seen) != 4 {
		t.Errorf("%d of 4 lists have different digests", len(seen))
	}
}
