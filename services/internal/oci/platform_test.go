package oci_test

import (
	"errors"
	"testing"

	"github.com/containerd/platforms"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	amd64, arm64 := ocispec.Platform{OS: "linux", Architecture: "amd64"}, ocispec.Platform{OS: "linux", Architecture: "arm64"}
	for _, tc := range []struct {
		name, in string
		want     ocispec.Platform
	}{
		{"default", "", amd64},
		{"architecture", "arm64", arm64},
		{"with the system", "linux/amd64", amd64},
		{"uname", "x86_64", amd64},
		{"uname with the system", "linux/aarch64", arm64},
		{"capitals", "Linux/ARM64", arm64},
		{"the variant every arm64 has", "linux/arm64/v8", arm64},
		{"the variant every amd64 has", "amd64/v1", amd64},
		{"variant", "linux/amd64/v3", ocispec.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}},
		{"arm", "linux/arm/v6", ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}},
		{"the default variant of arm", "linux/arm/v7", ocispec.Platform{OS: "linux", Architecture: "arm"}},
		{"other", "linux/riscv64", ocispec.Platform{OS: "linux", Architecture: "riscv64"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := oci.ParsePlatform(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParsePlatformRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"linux", "linux/", "/", "windows/amd64", "amd65", "linux/amd64/", "linux/amd64/v0", "linux/amd64/v10", "linux/amd64/x",
		"linux/amd64/v1/x", "amd64,arm64", " amd64", "linux/linux/amd64",
	} {
		if got, err := oci.ParsePlatform(in); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: got %v, %v; want fault.Invalid", in, got, err)
		}
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	p := func(arch, variant string) ocispec.Platform {
		return ocispec.Platform{OS: "linux", Architecture: arch, Variant: variant}
	}
	for _, tc := range []struct {
		name  string
		asked ocispec.Platform
		image ocispec.Platform
		want  bool
	}{
		{"same", p("amd64", ""), p("amd64", ""), true},
		{"arm64 is v8", p("arm64", ""), p("arm64", "v8"), true},
		{"arm is v7", p("arm", ""), p("arm", "v7"), true},
		{"arm v6 is another", p("arm", ""), p("arm", "v6"), false},
		{"amd64 v3 is another", p("amd64", ""), p("amd64", "v3"), false},
		{"other architecture", p("amd64", ""), p("arm64", ""), false},
		{"other system", p("amd64", ""), ocispec.Platform{OS: "windows", Architecture: "amd64"}, false},
		{"attestation", p("amd64", ""), ocispec.Platform{OS: "unknown", Architecture: "unknown"}, false},
		{"features do not matter", p("amd64", ""), ocispec.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{"erofs"}}, true},
		{"OS version does not matter", p("amd64", ""), ocispec.Platform{OS: "linux", Architecture: "amd64", OSVersion: "1"}, true},
	} {
		x := ocispec.Index{Manifests: []ocispec.Descriptor{
			{MediaType: ocispec.MediaTypeImageManifest}, // states no platform
			{MediaType: ocispec.MediaTypeImageIndex, Platform: &tc.image},
			{MediaType: ocispec.MediaTypeImageManifest, Platform: &tc.image},
		}}
		var want []int
		if tc.want {
			want = []int{2}
		}
		if d := cmp.Diff(want, oci.Matching(x, tc.asked)); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
}

func FuzzParsePlatform(f *testing.F) {
	for _, s := range []string{"", "amd64", "linux/arm64/v8", "x86_64/v2", "linux/arm/v6", "a/b/c/d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := oci.ParsePlatform(s)
		if err != nil {
			return
		}
		again, err := oci.ParsePlatform(platforms.Format(p))
		if err != nil || !cmp.Equal(again, p) || !platforms.NewMatcher(p).Match(again) {
			t.Errorf("%q: %+v parses to %+v, %v", s, p, again, err)
		}
	})
}
