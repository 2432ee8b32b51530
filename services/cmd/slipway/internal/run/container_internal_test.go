package run

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/sandbox"
)

func TestBinds(t *testing.T) {
	t.Parallel()
	here, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]sandbox.Bind{
		"/a":            {{From: "/a", To: "/a"}},
		"/a:/b":         {{From: "/a", To: "/b"}},
		"/a:/b:ro":      {{From: "/a", To: "/b", ReadOnly: true}},
		"/a:/b/:rw":     {{From: "/a", To: "/b"}},
		"/a::ro":        {{From: "/a", To: "/a", ReadOnly: true}},
		"/a,/b:/c":      {{From: "/a", To: "/a"}, {From: "/b", To: "/c"}},
		"x":             {{From: here, To: here}},
		"x:/y":          {{From: here, To: "/y"}},
		`/a\:b:/c\,d`:   {{From: "/a:b", To: "/c,d"}},
		`/a\\:/b`:       {{From: `/a\`, To: "/b"}},
		"/a/../b:/c/..": {{From: "/b", To: "/"}},
		"":              nil,
		",":             nil,
	} {
		if got, err := parseBinds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{":", ":/b", "/a:b", "/a:/b:rx", "/a:/b:ro:x", "/a\x00"} {
		if got, err := parseBinds(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzBinds(f *testing.F) {
	for _, text := range []string{"/a:/b:ro,/c", `/a\:b`, `\`, ",:,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseBinds(text)
		for _, b := range all {
			if err == nil && (!filepath.IsAbs(b.From) || !filepath.IsAbs(b.To) || strings.ContainsRune(b.From+b.To, 0)) {
				t.Errorf("%q: %+v", text, b)
			}
		}
	})
}

func TestContainerVariables(t *testing.T) {
	t.Parallel()
	user := []string{"HOME=/home/u", "PATH=/user", "LD_LIBRARY_PATH=/x", "A=user", "EMPTY=", "SINGULARITYENV_S=s", "APPTAINERENV_APPEND_PATH=/end", "APPTAINER_BIND=/x", "http_proxy=p", "broken"}
	image := []string{"PATH=/image", "A=image", "EMPTY=image", "B=image", "HOME=/root", "broken"}
	all := containerVariables(user, image, false, "/h", []string{"B=extra"})
	want := []string{"A=user", "http_proxy=p", "EMPTY=image", "HOME=/h", "S=s", "PATH=/image:/end", "B=extra"}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
	clean := containerVariables(user, nil, true, "/h", nil)
	if d := cmp.Diff([]string{"http_proxy=p", "HOME=/h", "S=s", "PATH=" + usualPath + ":/end"}, clean); d != "" {
		t.Error(d)
	}
}

func TestVisibleFolders(t *testing.T) {
	t.Parallel()
	binds := []sandbox.Bind{{From: "/home", To: "/home"}, {From: "/x", To: "/home/other"}, {From: "/a", To: "/b"}}
	for dir, want := range map[string]bool{"/home": true, "/home/u/work": true, "/home/other/y": false, "/a": false, "/b": false, "/homes": false} {
		if got := isVisible(binds, dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}

func FuzzReference(f *testing.F) {
	d := digest.FromString("x").String()
	f.Add([]byte(`{"slipwayImage":1,"image":{"imageDigest":"` + d + `","environment":"` + d + `"},"cache":"/cache","lower":["/lower"]}`))
	f.Add([]byte(`{"slipwayImage":2}`))
	f.Add([]byte("#!/bin/sh"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := parseReference(raw)
		if err == nil && (!filepath.IsAbs(r.Cache) || digest.Digest(r.Name.ImageDigest).Validate() != nil) {
			t.Errorf("%+v", r)
		}
	})
}

// A file of pull has no token, which other users could read.
func TestReferenceHasNoToken(t *testing.T) {
	t.Parallel()
	d := digest.FromString("x").String()
	const image = "slipway.example.org/wt/secret/tools:1"
	l := &launch{cache: cache.Open("/cache"), name: cache.Name{Name: image, Image: image, ImageDigest: d}}
	path := filepath.Join(t.TempDir(), "x.sif")
	if err := writeReference(path, newReference(l)); err != nil {
		t.Fatal(err)
	}
	raw := readFile(t, path)
	got, err := parseReference(raw)
	if err != nil || got.Name.ImageDigest != d || got.Cache != "/cache" || strings.Contains(string(raw), "secret") {
		t.Errorf("%s, %v", raw, err)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The sizes of a manifest are untrusted: their sum must not overflow.
func TestSizesOfLayers(t *testing.T) {
	t.Parallel()
	const large, malformed = "have more than", "malformed"
	for _, one := range []struct {
		want  string
		sizes []int64
	}{
		{"", []int64{0, limits.MountRootBytes - 1, 1}},
		{large, []int64{limits.MountRootBytes, 1}},
		{large, []int64{2, math.MaxInt64 - 1}},
		{large, []int64{math.MaxInt64, math.MaxInt64, 4}},
		{malformed, []int64{2, -1}},
	} {
		var layers []ocispec.Descriptor
		for _, size := range one.sizes {
			layers = append(layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromString("x"), Size: size})
		}
		err := checkLayers(layers)
		if (err == nil) != (one.want == "") || err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("%v: %v instead of %q", one.sizes, err, one.want)
		}
	}
}
