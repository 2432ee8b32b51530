package envfile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	const pip = "channels: [a]\ndependencies:\n- python=3.12\n- pip\n- pip:\n  - numpy==2.0\n  - -e git+https://h/x\n- bwa\n"
	for _, tc := range []struct {
		name, in string
		with     []string // channels to set; nil for unchanged
		text     string   // "" for in
		envName  string
		channels []string
		specs    []string
		pip      []string
	}{
		{name: "as it stands", in: "name: x\nchannels: [a, b]\ndependencies:\n- bwa=1\n", envName: "x", channels: []string{"a", "b"}, specs: []string{"bwa=1"}},
		{name: "no channels", in: "dependencies: [bwa]\n", specs: []string{"bwa"}},
		{name: "other keys", in: "prefix: /x\nvariables: {A: b}\ndependencies: [bwa]\n", specs: []string{"bwa"}},
		{
			name: "channels are added", in: "dependencies: [bwa]\n", with: []string{"conda-forge", "bioconda"},
			text: "dependencies: [bwa]\nchannels:\n  - \"conda-forge\"\n  - \"bioconda\"\n", channels: []string{"conda-forge", "bioconda"}, specs: []string{"bwa"},
		},
		{
			name: "channels are replaced", in: "channels:\n  - a # best\n# rest\ndependencies:\n  - bwa\n", with: []string{"a", "b"},
			text: "channels:\n  - \"a\"\n  - \"b\"\n# rest\ndependencies:\n  - bwa\n", channels: []string{"a", "b"}, specs: []string{"bwa"},
		},
		{name: "the same channels", in: "channels: [a] # best\ndependencies: [bwa]\n", with: []string{"a"}, channels: []string{"a"}, specs: []string{"bwa"}},
		{
			name: "indented", in: "---\n  dependencies: [bwa]\n...\n", with: []string{"a"},
			text: "---\n  dependencies: [bwa]\n  channels:\n    - \"a\"\n...\n", channels: []string{"a"}, specs: []string{"bwa"},
		},
		{name: "pip", in: pip, channels: []string{"a"}, specs: []string{"python=3.12", "pip", "bwa"}, pip: []string{"numpy==2.0", "-e git+https://h/x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := envfile.Read("condaFile", tc.in)
			if err == nil && tc.with != nil {
				e, err = e.WithChannels(tc.with)
			}
			if err != nil {
				t.Fatal(err)
			}
			if tc.text == "" {
				tc.text = tc.in
			}
			specs, pip := e.Specs()
			want := []any{tc.text, tc.envName, tc.channels, tc.specs, tc.pip}
			if diff := cmp.Diff(want, []any{e.Text(), e.Name, e.Channels, specs, pip}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRequirementsStayInOrder checks that requirements keep their order, since images are
// named after them.
func TestRequirementsStayInOrder(t *testing.T) {
	t.Parallel()
	e, err := envfile.Read("condaFile", "dependencies: [a, pip: [b, c], d]\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []envfile.Requirement{{Text: "a"}, {Text: "b", Pip: true}, {Text: "c", Pip: true}, {Text: "d"}}
	if diff := cmp.Diff(want, e.Requirements); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNewEnvironment(t *testing.T) {
	t.Parallel()
	all := []envfile.Requirement{{Text: "numpy >=1,<2"}, {Text: `x[y]; python_version<"3"`, Pip: true}, {Text: "pip"}}
	const want = "channels:\n  - \"c\"\ndependencies:\n  - \"numpy >=1,<2\"\n  - \"pip\"\n  - pip:\n      - \"x[y]; python_version<\\\"3\\\"\"\n"
	e := envfile.New([]string{"c"}, all)
	if diff := cmp.Diff(want, e.Text()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	back, err := envfile.Read("condaFile", e.Text())
	if err != nil {
		t.Fatal(err)
	}
	wantSpecs, wantPip := e.Specs()
	specs, pip := back.Specs()
	if diff := cmp.Diff([][]string{wantSpecs, wantPip}, [][]string{specs, pip}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoEnvironment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "one YAML document"},
		{"comment", "# x\n", "must be a mapping"},
		{"text", "bwa", "must be a mapping"},
		{"list", "- bwa\n", "must be a mapping"},
		{"explicit lock", "@EXPLICIT\nhttps://h/x.conda\n", "condaFile must be"},
		{"two documents", "dependencies: [a]\n---\ndependencies: [b]\n", "one YAML document"},
		{"broken", "dependencies: [a\n", "not valid YAML"},
		{"without dependencies", "name: x\n", "has no dependencies"},
		{"empty dependencies", "dependencies: []\n", "has no dependencies"},
		{"dependencies as text", "dependencies: bwa\n", "must be lists"},
		{"number", "dependencies: [1]\n", "dependencies[0] must be a string"},
		{"mapping that is not pip", "dependencies:\n- x: [y]\n", "dependencies[0] must be a package, or pip:"},
		{"pip as text", "dependencies:\n- pip: y\n", "dependencies[0] must be a package, or pip:"},
		{"number for pip", "dependencies:\n- a\n- pip: [1]\n", "dependencies[1] must be a package, or pip:"},
		{"channel", "channels: [\"-c x\"]\ndependencies: [a]\n", "channels[0]"},
		{"alias", "a: &x [b]\ndependencies: *x\n", "without aliases"},
		{"braces", "{dependencies: [a]}", "without braces"},
		{"deep", "dependencies: " + strings.Repeat("[", 1900), "too deeply"},
		{"long line", strings.Repeat("- ", 18000), "2000 characters"},
		{"NUL", "dependencies: [a]\x00", "not text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			got, err := envfile.Read("condaFile", tc.in)
			if err == nil {
				got, err = got.WithChannels([]string{"conda-forge"})
			}
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "condaFile") {
				t.Errorf("got %+v, %v; want %q", got, err, tc.want)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestChannels(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"conda-forge": true, "bioconda": true, "pkgs/main": true, "conda-forge/label/rust_dev": true, "nvidia": true,
		"https://conda.anaconda.org/conda-forge": true, "http://127.0.0.1:8080/c": true, "https://h/t/tk-123/get/c": true,
		"": false, "-c": false, "../x": false, "/x": false, "a//b": false, "a b": false, "a\nb": false, "file:///x": false, "ftp://h/x": false,
		"https://u:p@h/x": false, "https://": false, "https://h/$(id)": false, "https://h/a b": false, "https://h/\"x": false, "a;b": false,
		"https:opaque": false, "s3://b/c": false,
		"oci://ghcr.io/channel-mirrors/conda-forge": true, "oci://localhost:5000/lab": true, "oci://ghcr.io": false, "oci://ghcr.io/": false, "oci:///lab": false,
		"oci://u:p@ghcr.io/lab": false, "oci://ghcr.io/lab?x": false, "oci://ghcr.io/$(id)": false, "oci://ghcr.io/a b": false, "oci:ghcr.io/lab": false,
	} {
		if err := spec.CheckChannel(in); (err == nil) != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("name: x\nchannels: [a]\ndependencies:\n- b=1\n- pip:\n  - c\n", "conda-forge")
	f.Add("{dependencies: [a]}", "b")
	f.Add("dependencies: |\n  x\n", "")
	f.Fuzz(func(t *testing.T, text, channel string) {
		e, err := envfile.Read("condaFile", text)
		if err == nil && spec.IsChannel(channel) {
			e, err = e.WithChannels([]string{channel})
		}
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		var got struct {
			Channels     []string
			Dependencies []any
		}
		if err := yaml.Unmarshal([]byte(e.Text()), &got); err != nil || !cmp.Equal(got.Channels, e.Channels) || len(got.Dependencies) == 0 {
			t.Errorf("%q became %q, which reads as %+v, %v", text, e.Text(), got, err)
		}
	})
}
