package inspect_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// locked returns an image with a lock in its own layer, above a layer for each other entry of
// its history.
func locked(t *testing.T, label, lock string, history ...string) v1.Image {
	t.Helper()
	img := testkit.Image(t, "amd64", true)
	for i, by := range history {
		gz, _ := testkit.Tar(t, "layer", strings.Repeat("x", i+1))
		if by == conda.EnvironmentHistory {
			gz, _ = testkit.Tar(t, conda.LockFile, lock)
		}
		var err error
		img, err = mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(gz, types.OCILayer), History: v1.History{CreatedBy: by}})
		if err != nil {
			t.Fatal(err)
		}
	}
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	if layers, err := img.Layers(); err != nil || len(cf.History) != len(layers) {
		t.Fatalf("the history has %d entries for %d layers, %v", len(cf.History), len(layers), err)
	}
	if label != "" {
		cf.Config.Labels = map[string]string{conda.LockLabel: label}
	}
	img, err = mutate.ConfigFile(img, cf)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func records(t *testing.T, list ...conda.Record) string {
	t.Helper()
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestListImagePackages checks which layer each package is stated to be in, and the packages of
// a wheel.
func TestListImagePackages(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	a := conda.Record{Name: "a", Version: "1", Build: "0", Channel: "lab", Subdir: "linux-64", License: "MIT", URL: "https://example.org/a", SHA256: "aa", Size: 5}
	b, c := conda.Record{Name: "b", Version: "2", Build: "0"}, conda.Record{Name: "c", Version: "3", Subdir: conda.PyPI, Channel: conda.PyPI}
	lock := records(t, a, b, c)
	sum := digest.FromString(lock).String()
	for name, tc := range map[string]struct {
		history []string
		layers  [3]int // the index of each package's entry of the history; -1 if the layer is unknown
	}{
		"a layer each":            {[]string{a.History(), c.History(), b.History(), conda.EnvironmentHistory}, [3]int{0, 2, 1}},
		"a shared layer":          {[]string{a.History(), conda.GroupHistory(2), conda.EnvironmentHistory}, [3]int{0, 1, 1}},
		"a layer above":           {[]string{a.History(), conda.GroupHistory(2), conda.EnvironmentHistory, "RUN pip"}, [3]int{0, 1, 1}},
		"an environment below":    {[]string{a.History(), conda.EnvironmentHistory, c.History(), b.History(), a.History(), conda.EnvironmentHistory}, [3]int{4, 3, 2}},
		"a shared layer of more":  {[]string{a.History(), conda.GroupHistory(3), conda.EnvironmentHistory}, [3]int{0, -1, -1}},
		"a layer of the base":     {[]string{b.History(), "RUN apt", a.History(), conda.EnvironmentHistory}, [3]int{2, -1, -1}},
		"no layers with packages": {[]string{"RUN apt", conda.EnvironmentHistory}, [3]int{-1, -1, -1}},
	} {
		img := locked(t, sum, lock, tc.history...)
		digests := []string{}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers[len(layers)-len(tc.history):] {
			digests = append(digests, digestOf(t, l))
		}
		got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: r.open.Push(t, "lib/env:v1", img)}})
		if err != nil || len(got.GetPlatforms()) != 1 || len(got.GetPlatforms()[0].GetPackages()) != 3 || got.GetPlatforms()[0].GetPlatform() != "linux/amd64" {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for i, p := range got.GetPlatforms()[0].GetPackages() {
			want := ""
			if tc.layers[i] >= 0 {
				want = digests[tc.layers[i]]
			}
			if p.GetLayer() != want || p.GetName() != string(rune('a'+i)) || p.GetKind() != []string{"conda", "conda", "pypi"}[i] {
				t.Errorf("%s: %v, want the layer %q", name, p, want)
			}
		}
		if p := got.GetPlatforms()[0].GetPackages()[0]; p.GetLicense() != "MIT" || p.GetSize() != 5 || p.GetSha256() != "aa" || p.GetChannel() != "lab" || p.GetSubdir() != "linux-64" {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// TestListImagePackagesRefuses checks that nothing is listed if the lock is missing or cannot be
// trusted to be that of the image.
func TestListImagePackagesRefuses(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	lock := records(t, conda.Record{Name: "a", Version: "1"})
	sum := func(text string) string { return digest.FromString(text).String() }
	many := "[" + strings.Repeat(`{"name":"a","version":"1"},`, 10_000) + `{"name":"a","version":"1"}]`
	foreign := locked(t, "", lock, conda.EnvironmentHistory)
	for name, tc := range map[string]struct {
		image v1.Image
		kind  fault.Kind
		says  string
	}{
		"no label":            {foreign, fault.NotFound, "has no lock of Slipway"},
		"no such layer":       {locked(t, sum(lock), lock, "RUN x"), fault.NotFound, "history of the image does not describe"},
		"another lock":        {locked(t, sum("x"), lock, conda.EnvironmentHistory), fault.NotFound, "does not have the digest"},
		"a malformed lock":    {locked(t, sum(`[{"name":1}]`), `[{"name":1}]`, conda.EnvironmentHistory), fault.NotFound, "is malformed"},
		"a lock without end":  {locked(t, sum(`[`), `[`, conda.EnvironmentHistory), fault.NotFound, "is malformed"},
		"a lock of too many":  {locked(t, sum(many), many, conda.EnvironmentHistory), fault.Invalid, "more than 10000 packages"},
		"an oversized lock":   {locked(t, sum("x"), strings.Repeat("x", 17<<20), conda.EnvironmentHistory), fault.NotFound, "so the packages of the image are not known"},
		"a lock of old times": {strip(t, locked(t, sum(lock), lock, conda.EnvironmentHistory)), fault.NotFound, "build the image again"},
	} {
		_, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: r.open.Push(t, "lib/bad:v1", tc.image)}})
		if err == nil || !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	private := r.closed.Push(t, "team/env:v1", locked(t, sum(lock), lock, conda.EnvironmentHistory))
	if got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: private}}); err == nil {
		t.Errorf("without the login: %v", got)
	}
	if got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: private, PlatformAccessToken: "token"}}); err != nil {
		t.Errorf("with the login: %v, %v", got, err)
	}
}

// strip replaces the layer with the lock by one without it.
func strip(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "opt/conda/conda-meta/history", Mode: 0o644}), w.Close()); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := testkit.Image(t, "amd64", true)
	if len(layers) == 0 || len(cf.History) != len(layers) {
		t.Fatal("the image has no layer of the environment")
	}
	out, err = mutate.Append(out, mutate.Addendum{Layer: static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer), History: v1.History{CreatedBy: conda.EnvironmentHistory}})
	if err != nil {
		t.Fatal(err)
	}
	now, err := out.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	now = now.DeepCopy()
	now.Config.Labels = cf.Config.Labels
	out, err = mutate.ConfigFile(out, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
