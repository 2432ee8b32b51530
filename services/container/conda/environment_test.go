package conda

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestChannelsOfEnvironment checks that the request's channels follow those of the file,
// and that the defaults are only used without both.
func TestChannelsOfEnvironment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		asked    []string
		want     []string
	}{
		{"its own", "channels: [a, b]\ndependencies: [x]\n", nil, []string{"a", "b"}},
		{"none", "dependencies: [x]\n", nil, []string{"conda-forge", "bioconda"}},
		{"the request's", "dependencies: [x]\n", []string{"c"}, []string{"c"}},
		{"both", "channels: [a, b]\ndependencies: [x]\n", []string{"c", "a"}, []string{"a", "b", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := readEnvironment("condaFile", tc.in, "", nil, tc.asked)
			if err != nil {
				t.Fatal(err)
			}
			back, err := readEnvironment("condaFile", e.Text(), "", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{tc.want, tc.want}, [][]string{e.Channels, back.Channels}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPixiManifest reads a pixi.toml as condaFile and as packages.environment. One of its
// strings looks like a lock.
func TestPixiManifest(t *testing.T) {
	t.Parallel()
	const manifest = "[workspace]\nchannels = [\"conda-forge\"]\nplatforms = [\"linux-64\"]\ndescription = \"\"\"\nenvironments: none\n\"\"\"\n" +
		"[dependencies]\nbwa = \"0.7.*\"\n[activation.env]\nA = \"1\"\n[feature.x.dependencies]\njq = \"*\"\n[environments]\nx = [\"x\"]\n"
	alone, err := ReadFile(manifest, []string{"linux-64"}, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	named, err := Read(&containerv1.Packages{Type: "CONDA", EnvironmentName: "x", Channels: []string{"bioconda"}}, manifest, []string{"linux-64"}, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	if got := alone.Packages(); !slices.Equal(got.GetEntries(), []string{"bwa=0.7.*", "conda-forge::procps-ng"}) || !slices.Equal(got.GetChannels(), []string{"conda-forge"}) {
		t.Errorf("alone it is %v", got)
	}
	if got := named.Packages(); !slices.Equal(got.GetEntries(), []string{"bwa=0.7.*", "jq", "conda-forge::procps-ng"}) || !slices.Equal(got.GetChannels(), []string{"conda-forge", "bioconda"}) {
		t.Errorf("in packages it is %v", got)
	}
	// An installation in steps gets an environment file.
	const want = "channels:\n  - \"conda-forge\"\ndependencies:\n  - \"bwa=0.7.*\"\nvariables:\n  A: \"1\"\n"
	if got := fileOf(alone, ".slipway/conda.yml"); got != want || !strings.Contains(alone.Dockerfile(), "ENV A=\"1\"\n") || alone.IsLocked() {
		t.Errorf("conda.yml is %q, the Dockerfile %q", got, alone.Dockerfile())
	}
	for field, read := range map[string]func() (Recipe, error){
		"condaFile: ": func() (Recipe, error) { return ReadFile(manifest, []string{"linux-aarch64"}, Defaults{}) },
		"packages.environment: ": func() (Recipe, error) {
			return Read(&containerv1.Packages{Type: "CONDA"}, manifest, []string{"linux-64", "linux-aarch64"}, Defaults{})
		},
	} {
		if _, err := read(); err == nil || !strings.HasPrefix(err.Error(), field) || !strings.Contains(err.Error(), "is not for linux-aarch64; its platforms are linux-64") {
			t.Errorf("another platform: %v", err)
		}
	}
}
