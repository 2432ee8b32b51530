package oci_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

func TestAugmentManifest(t *testing.T) {
	t.Parallel()
	const config = `{"architecture":"amd64","rootfs":{"type":"layers","diff_ids":["sha256:old"]}}`
	for _, tc := range []struct {
		name string
		kind kind
		more string
	}{
		{"OCI", ociKind, ""},
		{"Docker", dockerKind, ""},
		{"annotations", ociKind, `,"annotations":{"z":"1","a":"<&>"}`},
		{"artifactType and subject", ociKind, `,"artifactType":"x/y","subject":` + desc},
		{"unknown members keep their bytes", ociKind, `,"zz":1.50e+3,"aa":{"b" : [1, 2],"b2":"\u0041<>"},"n":null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := repo{}
			r.add(tc.kind.config, config)
			root := r.add(tc.kind.manifest, tc.kind.text(config, tc.kind.layerOf("old", 5), tc.more))
			out := augment(t, r, root, oci.Augmentation{Layers: []oci.Layer{added("one"), added("two")}})

			made := out.Images[0]
			layers := strings.Join([]string{
				tc.kind.layerOf("old", 5), tc.kind.layerOf("one.tar.gz", 11), tc.kind.layerOf("two.tar.gz", 11),
			}, ",")
			want := oci.NewDocument(tc.kind.manifest, []byte(tc.kind.text(string(made.Config.Bytes), layers, tc.more)))
			sameDocument(t, want, out.Root)
			sameDocument(t, out.Root, made.Manifest)
			if made.Config.MediaType != tc.kind.config || made.Config.Digest != digest.FromBytes(made.Config.Bytes) {
				t.Errorf("the config is %s, %s", made.Config.MediaType, made.Config.Digest)
			}
		})
	}
}

func sameDocument(t testing.TB, want, got oci.Document) {
	t.Helper()
	if diff := cmp.Diff(string(want.Bytes), string(got.Bytes)); diff != "" {
		t.Error(diff)
	}
	if want.Digest != got.Digest || want.MediaType != got.MediaType {
		t.Errorf("got %s %s, want %s %s", got.MediaType, got.Digest, want.MediaType, want.Digest)
	}
}

func TestAugmentManifestWithoutInnerMediaType(t *testing.T) {
	t.Parallel()
	r := repo{}
	config := r.add(ocispec.MediaTypeImageConfig, `{"architecture":"amd64"}`)
	raw := fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[]}`, describe(config, ""))
	out := augment(t, r, r.add(ocispec.MediaTypeImageManifest, raw), oci.Augmentation{Layers: []oci.Layer{added("x")}})
	if out.Root.MediaType != ocispec.MediaTypeImageManifest || bytes.Contains(out.Root.Bytes, []byte(`"mediaType":"`+ocispec.MediaTypeImageManifest)) {
		t.Errorf("%s: %s", out.Root.MediaType, out.Root.Bytes)
	}
	if !bytes.Contains(out.Root.Bytes, []byte(ociKind.layerOf("x.tar.gz", 11))) {
		t.Errorf("the layer is missing: %s", out.Root.Bytes)
	}
}

func TestAugmentKeepsTheConfigDescriptor(t *testing.T) {
	t.Parallel()
	r := repo{}
	config := r.add(ocispec.MediaTypeImageConfig, `{}`)
	raw := `{"layers":[],"config":` + describe(config, `,"data":"e30=","annotations":{"a":"b"}`) + `}`
	out := augment(t, r, r.add(ocispec.MediaTypeImageManifest, raw), oci.Augmentation{Cmd: []string{"x"}})
	want := `{"layers":[],"config":` + describe(out.Images[0].Config, `,"annotations":{"a":"b"}`) + `}`
	if got := string(out.Root.Bytes); got != want {
		t.Errorf("inline data must go, the rest must stay:\n got %s\nwant %s", got, want)
	}
}

func TestAugmentNullLayers(t *testing.T) {
	t.Parallel()
	r := repo{}
	config := r.add(ocispec.MediaTypeImageConfig, `{}`)
	for _, raw := range []string{`{"config":` + describe(config, "") + `}`, `{"layers":null,"config":` + describe(config, "") + `}`} {
		out := augment(t, r, r.add(ocispec.MediaTypeImageManifest, raw), oci.Augmentation{Layers: []oci.Layer{added("x")}})
		m, err := oci.ParseManifest(out.Root)
		if err != nil || len(m.Layers) != 1 {
			t.Errorf("%s: %+v, %v", raw, m, err)
		}
	}
}

func TestAugmentRefuses(t *testing.T) {
	t.Parallel()
	r := repo{}
	config := r.add(ocispec.MediaTypeImageConfig, `{}`)
	twice := r.add(ocispec.MediaTypeImageConfig, `{"config":{"Env":["A=1"]},"config":{"Env":["A=2"]}}`)
	twiceInside := r.add(ocispec.MediaTypeImageConfig, `{"config":{"Cmd":["a"],"Cmd":["b"]}}`)
	wrong := r.add(ocispec.MediaTypeImageConfig, `{"config":{"Entrypoint":"sh"}}`)
	list := r.add(ocispec.MediaTypeImageConfig, `[]`)
	helm := r.add("application/vnd.cncf.helm.config.v1+json", `{}`)
	lost := oci.NewDocument(ocispec.MediaTypeImageConfig, []byte(`{"lost":1}`))
	with := func(d oci.Document) string { return `{"config":` + describe(d, "") + `,"layers":[]}` }
	for _, tc := range []struct {
		name, in string
		want     fault.Kind
		text     string
	}{
		{"an artifact that is no image", with(helm), fault.Invalid, "not a container image"},
		{"a config without a type", `{"config":{"digest":"` + sha256 + `","size":1}}`, fault.Invalid, "not a container image"},
		{"a member twice", `{"layers":[],"config":` + describe(config, "") + `,"layers":[]}`, fault.Invalid, "malformed"},
		{"a member of the config descriptor twice", `{"config":` + describe(config, `,"size":3`) + `}`, fault.Invalid, "malformed"},
		{"two configs", `{"config":` + describe(config, "") + `,"config":` + describe(list, "") + `}`, fault.Invalid, "malformed"},
		{"a config with a member twice", with(twice), fault.Invalid, "malformed"},
		{"runtime settings with a member twice", with(twiceInside), fault.Invalid, "malformed"},
		{"an entrypoint that is no list", with(wrong), fault.Invalid, "malformed"},
		{"a config that is a list", with(list), fault.Invalid, "malformed"},
		{"layers that are no list", `{"config":` + describe(config, "") + `,"layers":{}}`, fault.Invalid, "malformed"},
		{"no JSON", `<html>`, fault.Invalid, "malformed"},
		{"a missing config", with(lost), fault.NotFound, "there is no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := oci.Augment(t.Context(), r, oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(tc.in)),
				oci.Augmentation{Cmd: []string{"x"}, Layers: []oci.Layer{added("x")}}, linuxAMD64)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v; want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestAugmentIsDeterministic(t *testing.T) {
	t.Parallel()
	r := repo{}
	root := r.index(ociKind,
		describe(r.image(ociKind, `{"architecture":"amd64","config":{"Env":["A=1"]}}`), platform("linux", "amd64", "")),
		describe(r.image(ociKind, `{"architecture":"amd64","config":{"Env":["B=1"]}}`), platform("linux", "amd64", "v1")),
		describe(r.image(ociKind, `{"architecture":"arm64"}`), platform("linux", "arm64", "")))
	a := oci.Augmentation{
		Entrypoint: []string{"/x"}, Env: []string{"C=1", "A=2", "D=3"}, WorkingDir: "/",
		Layers: []oci.Layer{added("one"), added("two")},
	}
	want := augment(t, r, root, a)
	if len(want.Images) != 2 {
		t.Fatalf("%d images were augmented, want both of the platform", len(want.Images))
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			got, err := oci.Augment(t.Context(), r, root, a, linuxAMD64)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
	wg.Wait()
}

func TestIsZero(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		in   oci.Augmentation
		want bool
	}{
		{"nothing", oci.Augmentation{}, true},
		{"empty lists", oci.Augmentation{Entrypoint: []string{}, Env: []string{}, Layers: []oci.Layer{}}, true},
		{"entrypoint", oci.Augmentation{Entrypoint: []string{"x"}}, false},
		{"cmd", oci.Augmentation{Cmd: []string{"x"}}, false},
		{"env", oci.Augmentation{Env: []string{"A="}}, false},
		{"workingDir", oci.Augmentation{WorkingDir: "/"}, false},
		{"layer", oci.Augmentation{Layers: []oci.Layer{added("x")}}, false},
	} {
		if got := tc.in.IsZero(); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}

func BenchmarkAugmentIndex(b *testing.B) {
	r := repo{}
	root := r.index(ociKind,
		describe(r.image(ociKind, `{"architecture":"amd64","config":{"Entrypoint":["/e"],"Env":["PATH=/bin","HOME=/"]},"history":[{"created_by":"x"}]}`),
			platform("linux", "amd64", "")),
		describe(r.image(ociKind, `{"architecture":"arm64"}`), platform("linux", "arm64", "")))
	a := oci.Augmentation{Entrypoint: []string{"/x"}, Env: []string{"A=1"}, Layers: []oci.Layer{added("one")}}
	b.ReportAllocs()
	for b.Loop() {
		augment(b, r, root, a)
	}
}
