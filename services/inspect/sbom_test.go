package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
)

// A bom is what the tests read of a document in CycloneDX.
type bom struct {
	SerialNumber string
	Metadata     struct {
		Timestamp  string
		Component  struct{ Name, Version string }
		Properties []struct{ Name, Value string }
	}
	Components []struct {
		Name, Version, PURL string
		Properties          []struct{ Name, Value string }
	}
}

// summary returns a line for each component: package URL, layer and path.
func (b bom) summary() (out []string) {
	for _, c := range b.Components {
		line := c.PURL
		for _, p := range c.Properties {
			line += " " + p.Value
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func (b bom) note() string {
	for _, p := range b.Metadata.Properties {
		if p.Name == "slipway:note" {
			return p.Value
		}
	}
	return ""
}

func (r *fixture) bom(t *testing.T, image string) (bom, error) {
	t.Helper()
	var out bom
	got, err := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: image, Format: "cyclonedx"})
	if err != nil {
		return out, err
	}
	if got.GetMediaType() != "application/vnd.cyclonedx+json; version=1.6" {
		t.Error(got.GetMediaType())
	}
	return out, json.Unmarshal([]byte(got.GetDocument()), &out)
}

const status = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u7\n"

// TestSBOMOfLock checks that the packages of the lock and those of the other layers are listed, and that
// the layers of the lock are not read.
func TestSBOMOfLock(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	a := spec.Record{Name: "a", Version: "1", Build: "0", Channel: "lab", Subdir: "linux-64", License: "MIT", URL: "https://example.org/a-1-0.conda"}
	b := spec.Record{Name: "b", Version: "2", Subdir: spec.PyPI, Channel: spec.PyPI}
	lock := records(t, a, b)
	img := locked(t, digest.FromString(lock).String(), lock, "RUN apt", a.History(), b.History(), spec.EnvironmentHistory, "RUN pip")
	top := installed(t, "amd64", []string{"var/lib/dpkg/status", status, "usr/lib/os-release", "ID=ubuntu\nVERSION_ID=24.04\n", "opt/conda/conda-meta/a-1-0.json", `{"name":"a","version":"1","build":"0"}`,
		"opt/conda/lib/python3.12/site-packages/c.dist-info/METADATA", "Name: c\nVersion: 3\n", "opt/env/conda-meta/d.json", `{"name":"py-d","version":"4"}`,
		"opt/env/lib/python3.12/site-packages/py_d.dist-info/METADATA", "Name: py.d\nVersion: 4\n", "var/lib/rpm/Packages", "x"})
	layers, err := top.Layers()
	if err != nil {
		t.Fatal(err)
	}
	last := layers[len(layers)-1]
	if img, err = mutate.Append(img, mutate.Addendum{Layer: last, History: v1.History{CreatedBy: "RUN more"}}); err != nil {
		t.Fatal(err)
	}
	all, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	at := func(fromEnd int) string { return digestOf(t, all[len(all)-fromEnd]) }
	name := r.open.Push(t, "lib/env:v1", img)
	got, err := r.bom(t, name)
	if err != nil {
		t.Fatal(err)
	}
	top1 := digestOf(t, last)
	want := []string{
		"pkg:conda/a@1?build=0&channel=lab&subdir=linux-64&type=conda " + at(5) + " /opt/conda",
		"pkg:conda/py-d@4 " + top1 + " /opt/env",
		"pkg:deb/ubuntu/libc6@2.36-9%2Bdeb12u7?arch=amd64&distro=ubuntu-24.04 " + top1 + " /var/lib/dpkg/status",
		"pkg:pypi/b@2 " + at(4) + " /opt/conda",
		"pkg:pypi/c@3 " + top1 + " /opt/conda/lib/python3.12/site-packages/c.dist-info/METADATA",
	}
	if diff := cmp.Diff(want, got.summary()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(got.note(), "dpkg") || !strings.Contains(got.note(), "RPM") || got.Metadata.Component.Name+":v1" != name {
		t.Errorf("%q, %+v", got.note(), got.Metadata)
	}
	again, err := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: name})
	second, err2 := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: name, Format: "spdx", Platform: proto.String("linux/amd64")})
	if err != nil || err2 != nil || again.GetDocument() != second.GetDocument() || again.GetMediaType() != "application/spdx+json" || !strings.Contains(again.GetDocument(), `"SPDX-2.3"`) {
		t.Errorf("%v, %v", err, err2)
	}
}

// TestSBOMOfChangedEnvironment checks that layers above the environment replace and remove packages of the lock,
// and that packages of Python that Conda has installed are listed once.
func TestSBOMOfChangedEnvironment(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	a, b, c := spec.Record{Name: "openssl", Version: "3.4", Build: "0"}, spec.Record{Name: "b", Version: "2", Build: "0"}, spec.Record{Name: "pytorch", Version: "2", Build: "0"}
	lock := records(t, a, b, c)
	const meta, site = "opt/conda/conda-meta/", "opt/conda/lib/python3.12/site-packages/"
	// The layers of the lock are not attributed, so that one with a package of Python is read.
	img := locked(t, digest.FromString(lock).String(), lock)
	layer := func(by string, files ...string) {
		t.Helper()
		layers, err := installed(t, "amd64", files).Layers()
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layers[len(layers)-1], History: v1.History{CreatedBy: by}}); err != nil {
			t.Fatal(err)
		}
	}
	layer("COPY", site+"torch-2.dist-info/METADATA", "Name: torch\nVersion: 2.0\n", site+"torch-2.dist-info/INSTALLER", "conda\n", site+"b-2.dist-info/METADATA", "Name: b\nVersion: 2\n",
		"venv/lib/python3.12/site-packages/x-1.dist-info/METADATA", "Name: x\nVersion: 1\n", "venv/lib/python3.12/site-packages/x-1.dist-info/INSTALLER", "conda\n")
	gz, _ := testkit.Tar(t, spec.LockFile, lock)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(gz, types.OCILayer), History: v1.History{CreatedBy: spec.EnvironmentHistory}})
	if err != nil {
		t.Fatal(err)
	}
	if img, err = relabel(img, digest.FromString(lock).String()); err != nil {
		t.Fatal(err)
	}
	name := r.open.Push(t, "lib/changed:v1", img)
	got, err := r.bom(t, name)
	if err != nil {
		t.Fatal(err)
	}
	names := func(got bom) (out []string) {
		for _, c := range got.Components {
			kind, _, _ := strings.Cut(c.PURL, "/")
			out = append(out, kind+" "+c.Name+" "+c.Version)
		}
		slices.Sort(out)
		return out
	}
	if diff := cmp.Diff([]string{"pkg:conda b 2", "pkg:conda openssl 3.4", "pkg:conda pytorch 2", "pkg:pypi x 1"}, names(got)); diff != "" || strings.Contains(got.note(), "replaced") || !strings.Contains(got.note(), "those of the lock") {
		t.Errorf("%s\n%s", diff, got.note())
	}
	layer("RUN micromamba install", meta+".wh.openssl-3.4-0.json", "", meta+"openssl-3.5-0.json", `{"name":"openssl","version":"3.5","build":"0"}`, meta+".wh.b-2-0.json", "")
	got, err = r.bom(t, r.open.Push(t, "lib/changed:v2", img))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"pkg:conda openssl 3.5", "pkg:conda pytorch 2", "pkg:pypi b 2", "pkg:pypi x 1"}, names(got)); diff != "" || !strings.Contains(got.note(), "replaced or removed packages of the lock: 2") {
		t.Errorf("%s\n%s", diff, got.note())
	}
}

// relabel sets the label of the lock.
func relabel(img v1.Image, label string) (v1.Image, error) {
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cf = cf.DeepCopy()
	cf.Config.Labels = map[string]string{spec.LockLabel: label}
	return mutate.ConfigFile(img, cf)
}

// TestSBOMReadsBaseOnce checks that the base of images with locks is charged once in a repository.
func TestSBOMReadsBaseOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 4) // one for each call, and one for the layer
	base, err := installed(t, "amd64", []string{"var/lib/dpkg/status", status, "zeros", strings.Repeat("\x00", 110<<20)}).Layers()
	if err != nil {
		t.Fatal(err)
	}
	shared, err := mutate.Append(locked(t, "x", ""), mutate.Addendum{Layer: base[len(base)-1], History: v1.History{CreatedBy: "FROM"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		lock := records(t, spec.Record{Name: name, Version: "1", Build: "0"})
		gz, _ := testkit.Tar(t, spec.LockFile, lock)
		img, err := mutate.Append(shared, mutate.Addendum{Layer: static.NewLayer(gz, types.OCILayer), History: v1.History{CreatedBy: spec.EnvironmentHistory}})
		if err != nil {
			t.Fatal(err)
		}
		if img, err = relabel(img, digest.FromString(lock).String()); err != nil {
			t.Fatal(err)
		}
		got, err := r.bom(t, r.open.Push(t, "lib/shared:"+name, img))
		if err != nil || len(got.Components) != 2 || !slices.ContainsFunc(got.summary(), func(s string) bool { return strings.HasPrefix(s, "pkg:conda/"+name+"@1") }) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// Concurrent and later calls do not change what is cached.
	if got, err := r.bom(t, r.open.Host+"/lib/shared:a"); !errors.Is(err, fault.Exhausted) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSBOMOfForeignLayers checks that a lock is still listed if other layers cannot be read, and that an image
// without a lock is refused then.
func TestSBOMOfForeignLayers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	a := spec.Record{Name: "a", Version: "1"}
	lock := records(t, a)
	broken := static.NewLayer([]byte("no archive"), types.OCIUncompressedLayer)
	img, err := mutate.Append(locked(t, digest.FromString(lock).String(), lock, a.History(), spec.EnvironmentHistory), mutate.Addendum{Layer: broken, History: v1.History{CreatedBy: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.bom(t, r.open.Push(t, "lib/broken:v1", img)); err != nil || len(got.Components) != 1 || !strings.Contains(got.note(), "Only the packages of the lock are listed. The layer ") || strings.Contains(got.note(), "not known") {
		t.Errorf("%+v, %v", got, err)
	}
	img, err = mutate.AppendLayers(testkit.Image(t, "amd64", true), broken)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.bom(t, r.open.Push(t, "lib/broken:v2", img)); !errors.Is(err, fault.NotFound) {
		t.Errorf("%+v, %v", got, err)
	}
	bad := locked(t, digest.FromString("x").String(), lock, spec.EnvironmentHistory)
	if got, err := r.bom(t, r.open.Push(t, "lib/bad:v1", bad)); err != nil || !strings.Contains(got.note(), "does not have the digest") || len(got.Components) != 0 {
		t.Errorf("an invalid lock: %+v, %v", got, err)
	}
}

// TestSBOMRequests checks invalid requests, rights, platforms and charges.
func TestSBOMRequests(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	arm := installed(t, "arm64", []string{"lib/apk/db/installed", "P:musl\nV:1.2.5-r0\nA:aarch64\nL:MIT\n"})
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: testkit.Image(t, "amd64", true), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	many := r.open.Push(t, "lib/many:v1", index)
	got, err := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: many, Platform: proto.String("linux/arm64")})
	if err != nil || !strings.Contains(got.GetDocument(), `pkg:apk/alpine/musl@1.2.5-r0?arch=aarch64"`) || !strings.Contains(got.GetDocument(), "Platform linux/arm64") {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: many}); err != nil || strings.Contains(got.GetDocument(), "musl") || !strings.Contains(got.GetDocument(), "Platform linux/amd64") {
		t.Errorf("the default platform: %v, %v", got, err)
	}
	private := r.closed.Push(t, "team/env:v1", arm)
	if got, err := r.GetImageSBOM(t.Context(), &inspectv1.GetImageSBOMRequest{Image: private}); err == nil || !strings.Contains(err.Error(), "requires credentials") {
		t.Errorf("without the login: %v, %v", got, err)
	}
	signed := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer token")
	if got, err := r.GetImageSBOM(signed, &inspectv1.GetImageSBOMRequest{Image: private}); err != nil || !strings.Contains(got.GetDocument(), "musl") {
		t.Errorf("with the login: %v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		req  *inspectv1.GetImageSBOMRequest
		kind fault.Kind
		says string
	}{
		"no image":   {&inspectv1.GetImageSBOMRequest{}, fault.Invalid, "image is missing"},
		"a format":   {&inspectv1.GetImageSBOMRequest{Image: many, Format: "syft"}, fault.Invalid, "spdx or cyclonedx"},
		"a platform": {&inspectv1.GetImageSBOMRequest{Image: many, Platform: proto.String("linux/s390x")}, fault.NotFound, "linux/arm64"},
		"no entries": {&inspectv1.GetImageSBOMRequest{Image: r.open.Push(t, "lib/none:v1", empty.Index)}, fault.NotFound, "no images"},
	} {
		if got, err := r.GetImageSBOM(t.Context(), tc.req); !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	large := installed(t, "amd64", []string{"zeros", string(bytes.Repeat([]byte{0}, 110<<20))})
	for pulls, paid := range map[int]bool{3: true, 1: false} {
		r := newFixture(t, true, pulls)
		name := r.open.Push(t, "lib/large:v1", large)
		for range 2 { // the second is cached
			got, err := r.bom(t, name)
			if paid != (err == nil) || !paid && !errors.Is(err, fault.Exhausted) {
				t.Errorf("a large layer with %d pulls: %v, %v", pulls, got, err)
			}
		}
	}
}
