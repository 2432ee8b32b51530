package oci_test

import (
	_ "crypto/sha512" // linked into every program that uses TLS, so that sha512 digests can be parsed
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

const (
	hex64  = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	sha256 = "sha256:" + hex64
)

func TestParseReference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   string
		want oci.Reference
	}{
		{"one word", "ubuntu", oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Tag: "latest"}},
		{"tag", "ubuntu:24.04", oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Tag: "24.04"}},
		{"user", "biocontainers/samtools:1", oci.Reference{Registry: "docker.io", Repository: "biocontainers/samtools", Tag: "1"}},
		{"one word at docker.io", "docker.io/ubuntu", oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Tag: "latest"}},
		{"other name of docker.io", "index.docker.io/ubuntu", oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Tag: "latest"}},
		{"one word elsewhere", "quay.io/base:1", oci.Reference{Registry: "quay.io", Repository: "base", Tag: "1"}},
		{"deep", "quay.io/a/b/c/d:1", oci.Reference{Registry: "quay.io", Repository: "a/b/c/d", Tag: "1"}},
		{"port", "127.0.0.1:5000/a:1", oci.Reference{Registry: "127.0.0.1:5000", Repository: "a", Tag: "1"}},
		{"localhost", "localhost/a", oci.Reference{Registry: "localhost", Repository: "a", Tag: "latest"}},
		{"IPv6", "[::1]:5000/a", oci.Reference{Registry: "[::1]:5000", Repository: "a", Tag: "latest"}},
		{"a port that looks like a tag", "localhost:5000", oci.Reference{Registry: "docker.io", Repository: "library/localhost", Tag: "5000"}},
		{"digest", "ubuntu@" + sha256, oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Digest: sha256}},
		{"a tag with a digest is ignored", "quay.io/a:1@" + sha256, oci.Reference{Registry: "quay.io", Repository: "a", Digest: sha256}},
		{"separators", "quay.io/a.b_c__d-e/f", oci.Reference{Registry: "quay.io", Repository: "a.b_c__d-e/f", Tag: "latest"}},
		{"longest tag", "a:" + strings.Repeat("x", 128), oci.Reference{Registry: "docker.io", Repository: "library/a", Tag: strings.Repeat("x", 128)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := oci.ParseReference(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseReferenceRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "", "empty"},
		{"scheme", "https://quay.io/a", "scheme"},
		{"docker scheme", "docker://ubuntu", "scheme"},
		{"blank", "ubuntu 24", "spaces"},
		{"newline", "ubuntu\n", "spaces"},
		{"no-break space", "ubuntu\u00a0", "spaces"},
		{"NUL", "ubuntu\x00", "spaces"},
		{"capitals", "quay.io/Team/x", "lowercase"},
		{"as long as a body", strings.Repeat("a", 31_000_000), "too long for an image name"},
		{"tag too long", "a:" + strings.Repeat("x", 129), "not a valid image name"},
		{"empty tag", "ubuntu:", "not a valid image name"},
		{"only a digest", "@" + sha256, "not a valid image name"},
		{"only hex, which is an image id for engines", hex64, "not a valid image name"},
		{"short digest", "a@sha256:abc", "not a valid image name"},
		{"other digest", "a@sha512:" + hex64 + hex64, "not sha256"},
		{"parent folder", "quay.io/../a", "not a valid image name"},
		{"double slash", "quay.io//a", "not a valid image name"},
		{"query", "quay.io/a?b=c", "not a valid image name"},
		{"user info", "user:pw@quay.io/a", "not a valid image name"},
		{"name too long", "quay.io/" + strings.Repeat("a/", 128) + "b", "not a valid image name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := oci.ParseReference(tc.in)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v; want fault.Invalid with %q", got, err, tc.want)
			}
		})
	}
}

func TestParseRepository(t *testing.T) {
	t.Parallel()
	type parts struct{ Registry, Repository string }
	for _, tc := range []struct {
		name, in string
		want     parts // empty: refused
	}{
		{"plain", "quay.io/team/images", parts{"quay.io", "team/images"}},
		{"one part", "quay.io/images", parts{"quay.io", "images"}},
		{"port", "localhost:5000/images", parts{"localhost:5000", "images"}},
		{"localhost", "localhost/images", parts{"localhost", "images"}},
		{"Docker Hub", "docker.io/team/images", parts{"docker.io", "team/images"}},
		{"other name of Docker Hub", "index.docker.io/team/images", parts{"docker.io", "team/images"}},
		{"the path is called latest", "quay.io/latest", parts{"quay.io", "latest"}},
		{"nothing", "", parts{}},
		{"no registry", "team/images", parts{}},
		{"one word", "images", parts{}},
		{"tag", "quay.io/images:1", parts{}},
		{"tag latest", "quay.io/images:latest", parts{}},
		{"digest", "quay.io/images@" + sha256, parts{}},
		{"scheme", "https://quay.io/images", parts{}},
		{"only a host", "localhost:5000", parts{}},
		{"slash at the end", "quay.io/images/", parts{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			registry, repository, err := oci.ParseRepository(tc.in)
			if (tc.want == parts{}) {
				if !errors.Is(err, fault.Invalid) {
					t.Errorf("got %s, %s, %v; want fault.Invalid", registry, repository, err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, parts{registry, repository}); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestSuffixAndIdentifier(t *testing.T) {
	t.Parallel()
	byTag := oci.Reference{Registry: "quay.io", Repository: "a", Tag: "1.2"}
	byDigest := oci.Reference{Registry: "quay.io", Repository: "a", Digest: sha256}
	for _, tc := range []struct{ name, in, want string }{
		{"tag", byTag.String(), "quay.io/a:1.2"},
		{"digest", byDigest.String(), "quay.io/a@" + sha256},
		{"identifier of a tag", byTag.Identifier(), "1.2"},
		{"identifier of a digest", byDigest.Identifier(), sha256},
	} {
		if tc.in != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, tc.in, tc.want)
		}
	}
}

func TestIsTag(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     bool
	}{
		{"version", "24.04", true},
		{"underscore first", "_x", true},
		{"longest", strings.Repeat("x", 128), true},
		{"too long", strings.Repeat("x", 129), false},
		{"empty", "", false},
		{"dot first", ".x", false},
		{"dash first", "-x", false},
		{"digest", sha256, false},
		{"slash", "a/b", false},
		{"newline at the end", "a\n", false},
	} {
		if got := oci.IsTag(tc.in); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"ubuntu", "quay.io/a/b:1", "localhost:5000/a@" + sha256, "[::1]:5000/a", "A.b/c", "a:1@" + sha256, "://", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := oci.ParseReference(s)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v is no fault.Invalid", s, err)
			}
			return
		}
		if (ref.Tag == "") == (ref.Digest == "") {
			t.Errorf("%q: exactly one of tag and digest must be set: %+v", s, ref)
		}
		again, err := oci.ParseReference(ref.String())
		if err != nil || again != ref {
			t.Errorf("%q: %s parses to %+v, %v; want %+v", s, ref, again, err, ref)
		}
	})
}

func FuzzParseRepository(f *testing.F) {
	for _, s := range []string{"quay.io/a", "localhost:5000/a/b", "a/b", "quay.io/a:1", "quay.io/a@" + sha256} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		registry, repository, err := oci.ParseRepository(s)
		if err != nil {
			return
		}
		r2, p2, err := oci.ParseRepository(registry + "/" + repository)
		if err != nil || r2 != registry || p2 != repository {
			t.Errorf("%q: %s/%s parses to %s/%s, %v", s, registry, repository, r2, p2, err)
		}
	})
}

func BenchmarkParseReference(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := oci.ParseReference("quay.io/biocontainers/samtools:1.21--h50ea8bc_0"); err != nil {
			b.Fatal(err)
		}
	}
}
