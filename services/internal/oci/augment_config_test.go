package oci_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/oci"
)

// configOf returns the config that results from applying a to an image with the config in.
func configOf(t *testing.T, in string, a oci.Augmentation) string {
	t.Helper()
	r := repo{}
	return string(augment(t, r, r.image(ociKind, in), a).Images[0].Config.Bytes)
}

func TestAugmentRuntime(t *testing.T) {
	t.Parallel()
	entry := oci.Augmentation{Entrypoint: []string{"/new"}}
	env := func(kv ...string) oci.Augmentation { return oci.Augmentation{Env: kv} }
	for _, tc := range []struct {
		name string
		in   string // the member config
		add  oci.Augmentation
		want string
	}{
		{"cmd", `{"Cmd":["a","b"]}`, oci.Augmentation{Cmd: []string{"c"}}, `{"Cmd":["c"]}`},
		{"cmd is kept when only the entrypoint is replaced", `{"Cmd":["a"]}`, entry, `{"Cmd":["a"],"Entrypoint":["/new"]}`},
		{"workingDir", `{"WorkingDir":"/a","Cmd":["x"]}`, oci.Augmentation{WorkingDir: "/b"}, `{"WorkingDir":"/b","Cmd":["x"]}`},
		{"new members are appended", `{"User":"1"}`,
			oci.Augmentation{Entrypoint: []string{"/e"}, Cmd: []string{"c"}, WorkingDir: "/w", Env: []string{"A=1"}},
			`{"User":"1","Entrypoint":["/e"],"Cmd":["c"],"WorkingDir":"/w","Env":["A=1"]}`},
		{"unknown members keep their bytes", `{"ExposedPorts":{"80/tcp": {}},"X":1.0}`, oci.Augmentation{Cmd: []string{"c"}},
			`{"ExposedPorts":{"80/tcp": {}},"X":1.0,"Cmd":["c"]}`},
		{"null members", `{"Entrypoint":null,"Cmd":null,"Env":null}`, oci.Augmentation{Entrypoint: []string{"/new"}, Env: []string{"A=1"}},
			`{"Entrypoint":["/new"],"Cmd":null,"Env":["A=1"]}`},
		{"no escaping for HTML", `{"Env":["A=<&>"]}`, env("B=<&>"), `{"Env":["A=<&>","B=<&>"]}`},

		{"env: a new one", `{"Env":["A=1"]}`, env("B=2"), `{"Env":["A=1","B=2"]}`},
		{"env: replaced at its position", `{"Env":["A=1","B=2"]}`, env("A=9"), `{"Env":["A=9","B=2"]}`},
		{"env: the request's own order", `{}`, env("Z=1", "A=2"), `{"Env":["Z=1","A=2"]}`},
		{"env: the last of the request wins", `{}`, env("A=1", "A=2"), `{"Env":["A=2"]}`},
		{"env: only whole names match", `{"Env":["PATHS=1"]}`, env("PATH=2"), `{"Env":["PATHS=1","PATH=2"]}`},
		{"env: names are case-sensitive", `{"Env":["path=1"]}`, env("PATH=2"), `{"Env":["path=1","PATH=2"]}`},
		{"env: values may contain =", `{"Env":["A=x=y"]}`, env("A=p=q"), `{"Env":["A=p=q"]}`},
		{"env: empty value", `{"Env":["A=1"]}`, env("A="), `{"Env":["A="]}`},

		{"chain: one element is not encoded", `{"Entrypoint":["/old"]}`, entry, `{"Entrypoint":["/new"],"Env":["WAVE_ENTRY_CHAIN=/old"]}`},
		{"chain: several are JSON", `{"Entrypoint":["/bin/sh","-c","<x> \"y\""]}`, entry,
			`{"Entrypoint":["/new"],"Env":["WAVE_ENTRY_CHAIN=[\"/bin/sh\",\"-c\",\"<x> \\\"y\\\"\"]"]}`},
		{"chain: last in env", `{"Entrypoint":["/old"],"Env":["A=1"]}`, oci.Augmentation{Entrypoint: []string{"/new"}, Env: []string{"B=2"}},
			`{"Entrypoint":["/new"],"Env":["A=1","B=2","WAVE_ENTRY_CHAIN=/old"]}`},
		{"chain: an older one is replaced", `{"Entrypoint":["/old"],"Env":["WAVE_ENTRY_CHAIN=/older","A=1"]}`, entry,
			`{"Entrypoint":["/new"],"Env":["A=1","WAVE_ENTRY_CHAIN=/old"]}`},
		{"chain: none without an entrypoint", `{"Cmd":["a"]}`, entry, `{"Cmd":["a"],"Entrypoint":["/new"]}`},
		{"chain: none with an empty entrypoint", `{"Entrypoint":[]}`, entry, `{"Entrypoint":["/new"]}`},
		{"chain: none when the entrypoint stays", `{"Entrypoint":["/old"]}`, oci.Augmentation{Cmd: []string{"x"}},
			`{"Entrypoint":["/old"],"Cmd":["x"]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := configOf(t, `{"os":"linux","config":`+tc.in+`,"created":"x"}`, tc.add)
			if diff := cmp.Diff(`{"os":"linux","config":`+tc.want+`,"created":"x"}`, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAugmentRootFS(t *testing.T) {
	t.Parallel()
	const entry = `{"created_by":"slipway: added layer"}`
	x, y := digest.FromString("x.tar"), digest.FromString("y.tar")
	for _, tc := range []struct {
		name, in string
		layers   []oci.Layer
		want     string
	}{
		{"one layer", `{"rootfs":{"type":"layers","diff_ids":["o"]},"history":[{"a":1}],"config":{}}`, []oci.Layer{added("x")},
			`{"rootfs":{"type":"layers","diff_ids":["o","X"]},"history":[{"a":1},H],"config":{}}`},
		{"layers in order", `{"rootfs":{"type":"layers","diff_ids":[]},"history":[],"config":{}}`, []oci.Layer{added("y"), added("x")},
			`{"rootfs":{"type":"layers","diff_ids":["Y","X"]},"history":[H,H],"config":{}}`},
		{"neither rootfs nor history nor config", `{}`, []oci.Layer{added("x")},
			`{"rootfs":{"type":"layers","diff_ids":["X"]},"history":[H],"config":{}}`},
		{"null for each", `{"history":null,"config":null,"rootfs":null}`, []oci.Layer{added("x")},
			`{"history":[H],"config":{},"rootfs":{"type":"layers","diff_ids":["X"]}}`},
		{"null inside", `{"rootfs":{"type":null,"diff_ids":null},"config":{}}`, []oci.Layer{added("x")},
			`{"rootfs":{"type":"layers","diff_ids":["X"]},"config":{},"history":[H]}`},
		{"nothing to add", `{"rootfs":{"diff_ids":["o"]},"config":{}}`, nil,
			`{"rootfs":{"diff_ids":["o"]},"config":{"Cmd":["c"]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := oci.Augmentation{Layers: tc.layers}
			if tc.layers == nil {
				a.Cmd = []string{"c"}
			}
			want := strings.NewReplacer(`"X"`, fmt.Sprintf("%q", x), `"Y"`, fmt.Sprintf("%q", y), "H", entry).Replace(tc.want)
			if diff := cmp.Diff(want, configOf(t, tc.in, a)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLayersOfOneArchitecture(t *testing.T) {
	t.Parallel()
	every, arm, amd := added("every"), added("arm"), added("amd")
	arm.Architecture, amd.Architecture = "arm64", "amd64"
	a := oci.Augmentation{Layers: []oci.Layer{arm, every, amd}}
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"amd64", `{"architecture":"amd64"}`, []string{"every", "amd"}},
		{"arm64", `{"architecture":"arm64"}`, []string{"arm", "every"}},
		{"other", `{"architecture":"s390x"}`, []string{"every"}},
		{"not stated", `{}`, []string{"every"}},
		{"null", `{"architecture":null}`, []string{"every"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := repo{}
			out := augment(t, r, r.image(dockerKind, tc.in), a)
			var layers, diffIDs []string
			for _, name := range tc.want {
				layers = append(layers, dockerKind.layerOf(name+".tar.gz", 11))
				diffIDs = append(diffIDs, fmt.Sprintf("%q", digest.FromString(name+".tar")))
			}
			if want := `"layers":[` + dockerKind.layerOf("old", 5) + "," + strings.Join(layers, ",") + `]`; !strings.Contains(string(out.Root.Bytes), want) {
				t.Errorf("manifest %s\nlacks %s", out.Root.Bytes, want)
			}
			if want := `"diff_ids":[` + strings.Join(diffIDs, ",") + `]`; !strings.Contains(string(out.Images[0].Config.Bytes), want) {
				t.Errorf("config %s\nlacks %s", out.Images[0].Config.Bytes, want)
			}
		})
	}
}

func TestArchitectureOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"amd64", "https://x/fusion-amd64.tar.gz", "amd64"},
		{"arm64", "https://x/fusion-arm64.tar.gz", "arm64"},
		{"neither", "https://x/fusion.tar.gz", ""},
		{"other", "https://x/fusion-s390x.tar.gz", ""},
		{"not at the end", "https://x/fusion-amd64.tar.gz?x=1", ""},
		{"no dash", "https://x/amd64.tar.gz", ""},
		{"data", "data:AAAA", ""},
	} {
		if got := oci.ArchitectureOf(tc.in); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}
