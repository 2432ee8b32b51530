package inspect_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/conda/spec"
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
		if by == spec.EnvironmentHistory {
			gz, _ = testkit.Tar(t, spec.LockFile, lock)
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
		cf.Config.Labels = map[string]string{spec.LockLabel: label}
	}
	img, err = mutate.ConfigFile(img, cf)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func records(t *testing.T, list ...spec.Record) string {
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
	a := spec.Record{Name: "a", Version: "1", Build: "0", Channel: "lab", Subdir: "linux-64", License: "MIT", URL: "https://example.org/a", SHA256: "aa", Size: 5}
	b, c := spec.Record{Name: "b", Version: "2", Build: "0"}, spec.Record{Name: "c", Version: "3", Subdir: spec.PyPI, Channel: spec.PyPI}
	lock := records(t, a, b, c)
	sum := digest.FromString(lock).String()
	for name, tc := range map[string]struct {
		history []string
		layers  [3]int // the index of each package's entry of the history; -1 if the layer is unknown
	}{
		"a layer each":            {[]string{a.History(), c.History(), b.History(), spec.EnvironmentHistory}, [3]int{0, 2, 1}},
		"a shared layer":          {[]string{a.History(), spec.GroupHistory(2), spec.EnvironmentHistory}, [3]int{0, 1, 1}},
		"a layer above":           {[]string{a.History(), spec.GroupHistory(2), spec.EnvironmentHistory, "RUN pip"}, [3]int{0, 1, 1}},
		"an environment below":    {[]string{a.History(), spec.EnvironmentHistory, c.History(), b.History(), a.History(), spec.EnvironmentHistory}, [3]int{4, 3, 2}},
		"a shared layer of more":  {[]string{a.History(), spec.GroupHistory(3), spec.EnvironmentHistory}, [3]int{0, -1, -1}},
		"a layer of the base":     {[]string{b.History(), "RUN apt", a.History(), spec.EnvironmentHistory}, [3]int{2, -1, -1}},
		"no layers with packages": {[]string{"RUN apt", spec.EnvironmentHistory}, [3]int{-1, -1, -1}},
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
	lock := records(t, spec.Record{Name: "a", Version: "1"})
	sum := func(text string) string { return digest.FromString(text).String() }
	many := "[" + strings.Repeat(`{"name":"a","version":"1"},`, 10_000) + `{"name":"a","version":"1"}]`
	foreign := locked(t, "", lock, spec.EnvironmentHistory)
	for name, tc := range map[string]struct {
		image v1.Image
		kind  fault.Kind
		says  string
	}{
		"no label":            {foreign, fault.NotFound, "neither a lock of Slipway nor records"},
		"no such layer":       {locked(t, sum(lock), lock, "RUN x"), fault.NotFound, "history of the image does not describe"},
		"another lock":        {locked(t, sum("x"), lock, spec.EnvironmentHistory), fault.NotFound, "does not have the digest"},
		"a malformed lock":    {locked(t, sum(`[{"name":1}]`), `[{"name":1}]`, spec.EnvironmentHistory), fault.NotFound, "is malformed"},
		"a lock without end":  {locked(t, sum(`[`), `[`, spec.EnvironmentHistory), fault.NotFound, "is malformed"},
		"a lock of too many":  {locked(t, sum(many), many, spec.EnvironmentHistory), fault.Invalid, "more than 10000 packages"},
		"an oversized lock":   {locked(t, sum("x"), strings.Repeat("x", 17<<20), spec.EnvironmentHistory), fault.NotFound, "so the packages of the image are not known"},
		"a lock of old times": {strip(t, locked(t, sum(lock), lock, spec.EnvironmentHistory)), fault.NotFound, "build the image again"},
	} {
		_, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: r.open.Push(t, "lib/bad:v1", tc.image)}})
		if err == nil || !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	private := r.closed.Push(t, "team/env:v1", locked(t, sum(lock), lock, spec.EnvironmentHistory))
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
	out, err = mutate.Append(out, mutate.Addendum{Layer: static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer), History: v1.History{CreatedBy: spec.EnvironmentHistory}})
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

// installed returns an image with a layer for each list of names and contents of files.
func installed(t *testing.T, arch string, layers ...[]string) v1.Image {
	t.Helper()
	img := testkit.Image(t, arch, true)
	for _, files := range layers {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for i := 0; i < len(files); i += 2 {
			if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(files[i+1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if img, err = mutate.AppendLayers(img, static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// TestListInstalledPackages checks the packages of images that have records of installed packages,
// but no lock.
func TestListInstalledPackages(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	const a, b = `{"name":"a","version":"1","build":"0","channel":"https://u:pw@example.org/t/secret/lab","subdir":"noarch","license":"MIT","md5":"aa","sha256":"bb","size":5,"url":"https://example.org/t/secret/lab/noarch/a-1-0.conda"}`, `{"name":"b","version":"2"}`
	img := installed(t, "amd64", []string{"opt/conda/conda-meta/a-1-0.json", a, "opt/conda/conda-meta/c-1-0.json", b}, []string{"usr/local/conda-meta/b-2-0.json", b, "opt/conda/conda-meta/.wh.c-1-0.json", ""})
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	list := func(image, token string) (*inspectv1.ImagePackages, error) {
		got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: image, PlatformAccessToken: token}})
		if err != nil {
			return nil, err
		}
		return got.GetPlatforms()[0], nil
	}
	got, err := list(r.open.Push(t, "lib/tool:v1", img), "")
	if err != nil || got.GetSource() != "conda-meta" || got.GetProblem() != "" || len(got.GetPackages()) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	first, second := got.GetPackages()[0], got.GetPackages()[1]
	if first.GetPrefix() != "/opt/conda" || first.GetLayer() != digestOf(t, layers[len(layers)-2]) || first.GetChannel() != "https://example.org/lab" || first.GetUrl() != "https://example.org/lab/noarch/a-1-0.conda" ||
		first.GetLicense() != "MIT" || first.GetMd5() != "aa" || first.GetSha256() != "bb" || first.GetSize() != 5 || first.GetKind() != "conda" || first.GetSubdir() != "noarch" || first.GetBuild() != "0" {
		t.Errorf("%v", first)
	}
	if second.GetPrefix() != "/usr/local" || second.GetName() != "b" || second.GetLayer() != digestOf(t, layers[len(layers)-1]) {
		t.Errorf("%v", second)
	}
	if strings.Contains(got.String(), "secret") || strings.Contains(got.String(), "pw") {
		t.Errorf("a login is returned: %v", got)
	}
	got, err = list(r.open.Push(t, "lib/broken:v1", installed(t, "amd64", []string{"c/conda-meta/a.json", a, "c/conda-meta/b.json", "{", "c/conda-meta/c.json", "{"})), "")
	if err != nil || len(got.GetPackages()) != 1 || !strings.Contains(got.GetProblem(), "2 records") || !strings.Contains(got.GetProblem(), "/c/conda-meta/b.json") {
		t.Errorf("unreadable records: %v, %v", got, err)
	}
	if got, err := list(r.open.Push(t, "lib/none:v1", installed(t, "amd64", []string{"c/conda-meta/b.json", "{"})), ""); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "None of the 1 records") {
		t.Errorf("only unreadable records: %v, %v", got, err)
	}
	// An image that was squashed has the label of the lock, but another history.
	squashed := locked(t, "sha256:x", "", "RUN x")
	squashed, err = mutate.AppendLayers(squashed, static.NewLayer(mustTar(t, "opt/conda/conda-meta/a-1-0.json", a), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := list(r.open.Push(t, "lib/squashed:v1", squashed), ""); err != nil || got.GetSource() != "conda-meta" || len(got.GetPackages()) != 1 {
		t.Errorf("a squashed image: %v, %v", got, err)
	}
	private := r.closed.Push(t, "team/tool:v1", img)
	if got, err := list(private, ""); err == nil {
		t.Errorf("without the login: %v", got)
	}
	if got, err := list(private, "token"); err != nil || len(got.GetPackages()) != 2 {
		t.Errorf("with the login: %v, %v", got, err)
	}
}

func mustTar(t *testing.T, name, content string) []byte {
	t.Helper()
	gz, _ := testkit.Tar(t, name, content)
	return gz
}

// TestListInstalledPackagesOfPlatforms checks that a platform whose packages are not known does not hide
// those of others, and that the layers are charged.
func TestListInstalledPackagesOfPlatforms(t *testing.T) {
	t.Parallel()
	const a = `{"name":"a","version":"1"}`
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: installed(t, "amd64", []string{"opt/conda/conda-meta/a.json", a}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: installed(t, "arm64", []string{"opt/conda/conda-meta/.wh.", ""}), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: testkit.Image(t, "s390x", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}})
	for pulls, paid := range map[int]bool{3: true, 2: false} {
		r := newFixture(t, true, pulls)
		got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: r.open.Push(t, "lib/many:v1", index)}})
		if !paid {
			if !errors.Is(err, fault.Exhausted) {
				t.Errorf("with %d pulls: %v, %v", pulls, got, err)
			}
			continue
		}
		if err != nil || len(got.GetPlatforms()) != 3 {
			t.Fatalf("%v, %v", got, err)
		}
		p := got.GetPlatforms()
		if len(p[0].GetPackages()) != 1 || !strings.Contains(p[1].GetProblem(), "whiteout without a name") || !strings.Contains(p[2].GetProblem(), "neither a lock") || p[1].Source != nil || p[2].GetPlatform() != "linux/s390x" {
			t.Errorf("%v", got)
		}
	}
	zeros := strings.Repeat("\x00", 110<<20)
	for pulls, paid := range map[int]bool{2: true, 1: false} {
		r := newFixture(t, true, pulls)
		large := installed(t, "amd64", []string{"opt/conda/conda-meta/a.json", a, "zeros", zeros})
		got, err := r.ListImagePackages(t.Context(), &inspectv1.ListImagePackagesRequest{Image: &inspectv1.ImageQuery{ContainerImage: r.open.Push(t, "lib/large:v1", large)}})
		if paid != (err == nil) || !paid && !errors.Is(err, fault.Exhausted) {
			t.Errorf("a large layer with %d pulls: %v, %v", pulls, got, err)
		}
	}
}
