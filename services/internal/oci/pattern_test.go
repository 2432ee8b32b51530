package oci_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

func TestParseRepositoryPattern(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]oci.RepositoryPattern{
		"ghcr.io/lab/*":                            "ghcr.io/lab/*",
		"ghcr.io/*":                                "ghcr.io/*",
		"docker.io/*":                              "docker.io/*",
		"docker.io/debian":                         "docker.io/library/debian",
		"docker.io/debian/*":                       "docker.io/debian/*",
		"docker.io/library/debian":                 "docker.io/library/debian",
		"index.docker.io/debian":                   "docker.io/library/debian",
		"registry-1.docker.io/lab/*":               "docker.io/lab/*",
		"GHCR.io/lab/tool":                         "ghcr.io/lab/tool",
		"localhost/x":                              "localhost/x",
		"127.0.0.1:5000/team/*":                    "127.0.0.1:5000/team/*",
		"registry:5000/a_b/c.d/e__f/g--h":          "registry:5000/a_b/c.d/e__f/g--h",
		"r.example/" + strings.Repeat("a", 255-10): oci.RepositoryPattern("r.example/" + strings.Repeat("a", 255-10)),
	} {
		got, err := oci.ParseRepositoryPattern(in)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "*", "/*", "ghcr.io", "ghcr.io/", "lab/*", "debian", "library/debian", "ghcr.io/lab*", "ghcr.io/*/x", "ghcr.io/**", "ghcr.io/lab/**",
		"*.io/lab", "ghcr.io/lab/tool:1", "ghcr.io/lab/tool@sha256:" + strings.Repeat("a", 64), "ghcr.io/Lab/tool", "ghcr.io/lab/../x", "ghcr.io/./x",
		"ghcr.io//x", "https://ghcr.io/lab/x", "ghcr.io/lab/ x", "ghcr.io/lab/x ghcr.io/y", "ghcr.io/lab/x\n", "user@ghcr.io/lab", "[::1]:5000/x", "-a.io/x", "a-.io/x",
		"r.example/" + strings.Repeat("a", limits.TokenRepository-9),
	} {
		if got, err := oci.ParseRepositoryPattern(in); !errors.Is(err, fault.Invalid) || got != "" {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

func TestRepositoryPatternMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, image string
		want           bool
	}{
		{"ghcr.io/lab/*", "ghcr.io/lab/tool", true},
		{"ghcr.io/lab/*", "ghcr.io/lab/a/b/c:1", true},
		{"ghcr.io/lab/*", "GHCR.IO/lab/tool", true},
		{"GHCR.io/lab/*", "ghcr.io/lab/tool", true},
		{"ghcr.io/lab/*", "ghcr.io/lab", false},
		{"ghcr.io/lab/*", "ghcr.io/laboratory/tool", false},
		{"ghcr.io/lab/*", "ghcr.io/other/lab/tool", false},
		{"ghcr.io/lab/*", "ghcr.io:443/lab/tool", false}, // another name: it is denied rather than compared
		{"ghcr.io/lab/*", "ghcr.io.evil.example/lab/tool", false},
		{"ghcr.io/lab/*", "evil.example/ghcr.io/lab/tool", false},
		{"ghcr.io/lab/*", "lab/tool", false},
		{"ghcr.io/lab/tool", "ghcr.io/lab/tool:1@sha256:" + strings.Repeat("a", 64), true},
		{"ghcr.io/lab/tool", "ghcr.io/lab/tool/x", false},
		{"ghcr.io/lab/tool", "ghcr.io/lab/tool2", false},
		{"docker.io/library/debian", "debian", true},
		{"docker.io/debian", "debian:12", true},
		{"docker.io/debian", "docker.io/library/debian", true},
		{"docker.io/debian", "index.docker.io/debian", true},
		{"docker.io/debian", "registry-1.docker.io/library/debian", true},
		{"docker.io/debian", "docker.io/lab/debian", false},
		{"docker.io/debian/*", "debian", false},
		{"docker.io/debian/*", "debian/snapshot", true},
		{"docker.io/library/*", "debian", true},
		{"docker.io/*", "debian", true},
		{"docker.io/*", "lab/tool", true},
		{"docker.io/*", "ghcr.io/lab/tool", false},
		{"localhost:5000/*", "localhost:5001/x", false},
		{"localhost:5000/*", "127.0.0.1:5000/x", false},
	} {
		p, err := oci.ParseRepositoryPattern(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := oci.ParseReference(tc.image)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Matches(ref.Registry, ref.Repository); got != tc.want {
			t.Errorf("%s matches %s: %t, want %t", tc.pattern, tc.image, got, tc.want)
		}
	}
	if oci.RepositoryPattern("").Matches("ghcr.io", "lab") || oci.RepositoryPattern("/*").Matches("", "x") {
		t.Error("a malformed pattern matches")
	}
}

func TestRepositoryPatternCovers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outer, inner oci.RepositoryPattern
		want         bool
	}{
		{"ghcr.io/lab/*", "ghcr.io/lab/*", true},
		{"ghcr.io/lab/*", "ghcr.io/lab/a/*", true},
		{"ghcr.io/lab/*", "ghcr.io/lab/a", true},
		{"ghcr.io/*", "ghcr.io/lab/*", true},
		{"ghcr.io/lab/*", "ghcr.io/*", false},
		{"ghcr.io/lab/*", "ghcr.io/laboratory/*", false},
		{"ghcr.io/lab/a", "ghcr.io/lab/a", true},
		{"ghcr.io/lab/a", "ghcr.io/lab/a/*", false},
		{"ghcr.io/lab/a/*", "ghcr.io/lab/a", false},
		{"docker.io/library/*", "docker.io/library/debian", true},
		{"docker.io/library/debian", "docker.io/*", false},
	} {
		if got := tc.outer.Covers(tc.inner); got != tc.want {
			t.Errorf("%s covers %s: %t, want %t", tc.outer, tc.inner, got, tc.want)
		}
	}
}

// FuzzParseRepositoryPattern checks that a pattern is stable, fits into a list that is separated by
// spaces, covers itself, and matches no repository that only its text contains.
func FuzzParseRepositoryPattern(f *testing.F) {
	for _, s := range []string{"ghcr.io/lab/*", "docker.io/debian", "docker.io/*", "r:5000/a_b", "GHCR.io/x", "ghcr.io/../x", "ghcr.io/lab*", "localhost/*"} {
		f.Add(s, "ghcr.io/lab/tool:1")
	}
	form := regexp.MustCompile(`^[a-z0-9.:-]+(/[a-z0-9._-]+)*(/[a-z0-9._-]+|/\*)$`)
	f.Fuzz(func(t *testing.T, text, image string) {
		p, err := oci.ParseRepositoryPattern(text)
		if err != nil {
			if !errors.Is(err, fault.Invalid) || p != "" {
				t.Fatalf("%q: %q, %v", text, p, err)
			}
			return
		}
		if !form.MatchString(string(p)) || len(p) > limits.TokenRepository+len("library/") {
			t.Fatalf("%q is parsed as %q", text, p)
		}
		if again, err := oci.ParseRepositoryPattern(string(p)); len(p) <= limits.TokenRepository && (err != nil || again != p) {
			t.Fatalf("%q is parsed as %q, then as %q, %v", text, p, again, err)
		}
		if !p.Covers(p) {
			t.Fatalf("%q does not cover itself", p)
		}
		ref, err := oci.ParseReference(image)
		if err != nil || !p.Matches(ref.Registry, ref.Repository) {
			return
		}
		path, all := strings.CutSuffix(string(p), "/*")
		name := oci.CanonicalHost(strings.ToLower(ref.Registry)) + "/" + ref.Repository
		if name != path && (!all || !strings.HasPrefix(name, path+"/")) {
			t.Fatalf("%q matches %q", p, image)
		}
	})
}
