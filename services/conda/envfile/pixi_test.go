package envfile_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// pipeline is a manifest as a pipeline has one.
const pipeline = `
# The tools of the pipeline.
[workspace]
name = "qc"
authors = ["Ann <ann@example.org>"]
channels = ["conda-forge", { channel = "bioconda", priority = 0 }, "https://conda.example.org/team"]
platforms = ["linux-64", "osx-arm64", { name = "arm", platform = "linux-aarch64", glibc = "2.28" }]
requires-pixi = ">=0.40"

[system-requirements]
libc = { family = "glibc", version = "2.28" }

[tasks]
count = { cmd = "samtools view -c $BAM", env = { BAM = "a.bam" } }
report = """
multiqc . # [not.a.table]
"""

[dependencies]
samtools = "1.20.*"
python = ">=3.9, <3.13"
bwa = "*"
star = "2.7.11b"
Jq = { version = "~=1.7", channel = "conda-forge" }
pytorch = { version = ">=2.1|<1.9", build = "cuda*", build-number = ">=1" }

[host-dependencies]
zlib = "==1.3.1"

[activation.env]
OMP_NUM_THREADS = "2"

[target.linux.dependencies]
strace = "*"

[target.osx-arm64.dependencies]
samtools = "1.19.*"

[target.osx-arm64.pypi-dependencies]
mlx = "*"

[feature.report.dependencies]
multiqc = ">=1.20"
python = ">=3.11"

[feature.report]
channels = ["https://conda.example.org/reports", "bioconda"]
platforms = ["linux-64"]

[feature.report.activation.env]
LC_ALL = 'C.UTF-8 "of all"'

[feature.lint.dependencies]
ruff = "*"

[feature.torch.pypi-dependencies]
torch = "*"

[environments]
report = ["report"]
lint = { features = ["lint"], no-default-feature = true, solve-group = "a" }
torch = ["torch"]
`

const pyproject = `
[project]
name = "mine"
version = "1.0"
requires-python = ">=3.9"
dependencies = ["Num_Py>=1.26", "pandas[all] ; python_version > '3'"]

[project.optional-dependencies]
test = ["pytest"]

[build-system]
requires = ["hatchling"]

[tool.ruff.lint]
select = ["E"]

[tool.pixi.workspace] # as pixi init writes it
channels = ["conda-forge"]
platforms = ["linux-64"]

[tool.pixi.dependencies]
num-py = "1.26.*"
pandas = "*"

[tool.pixi.environments]
default = { features = [], solve-group = "default" }
test = { features = ["test"], solve-group = "default" }
`

func TestPixiManifest(t *testing.T) {
	t.Parallel()
	own := []string{"bwa", "conda-forge::jq~=1.7", "python>=3.9,<3.13", `pytorch[version=">=2.1|<1.9",build="cuda*",build_number=">=1"]`, "samtools=1.20.*", "star==2.7.11b", "strace", "zlib==1.3.1"}
	for _, tc := range []struct {
		name, text, environment string
		platforms               []string
		channels, specs         []string
		variables               map[string]string
	}{
		{
			name: "the default environment", text: pipeline, platforms: []string{"linux-64", "linux-aarch64"},
			channels: []string{"conda-forge", "bioconda", "https://conda.example.org/team"}, specs: own, variables: map[string]string{"OMP_NUM_THREADS": "2"},
		},
		{
			name: "features", text: pipeline, environment: "report", platforms: []string{"linux-64"},
			channels: []string{"https://conda.example.org/reports", "bioconda", "conda-forge", "https://conda.example.org/team"},
			specs:    slices.Concat(own, []string{"multiqc>=1.20", "python>=3.11"}), variables: map[string]string{"OMP_NUM_THREADS": "2", "LC_ALL": `C.UTF-8 "of all"`},
		},
		{
			name: "without the default feature", text: pipeline, environment: "lint", platforms: []string{"linux-aarch64"},
			channels: []string{"conda-forge", "bioconda", "https://conda.example.org/team"}, specs: []string{"ruff"},
		},
		{name: "pyproject.toml", text: pyproject, environment: "default", platforms: []string{"linux-64"}, channels: []string{"conda-forge"}, specs: []string{"num-py=1.26.*", "pandas", "python>=3.9"}},
		{
			name: "a manifest with old tables", text: "[project]\nname = \"a\"\nchannels = [\"a\", {channel = \"b\", priority = 2}]\nplatforms = [\"linux-64\"]\n[dependencies]\na = \"1\"\n[build-dependencies]\na = \"=2\"\n",
			platforms: []string{"linux-64"}, channels: []string{"b", "a"}, specs: []string{"a=2"},
		},
		{
			name: "a target replaces", text: pixi("[dependencies]\na = \"1.*\"\nb = \"1\"\n[target.linux-64.dependencies]\na = \"2.*\"\n[target.unix.dependencies]\na = \"2.*\"\n"),
			platforms: []string{"linux-64"}, channels: []string{"a"}, specs: []string{"a=2.*", "b==1"},
		},
	} {
		if !envfile.IsPixi(tc.text) {
			t.Errorf("%s: it is not known as a manifest", tc.name)
		}
		e, err := envfile.ReadPixi("condaFile", tc.text, tc.environment, tc.platforms)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		specs, pip := e.Specs()
		slices.Sort(tc.specs)
		slices.Sort(specs)
		if diff := cmp.Diff([]any{tc.channels, tc.specs, tc.variables, []string(nil)}, []any{e.Channels, specs, e.Variables, pip}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		isSameFile(t, tc.name, e)
	}
}

// isSameFile checks that the text of an environment is an environment file with its content, also
// with other channels.
func isSameFile(t *testing.T, name string, e envfile.Environment) {
	t.Helper()
	changed, err := e.WithChannels([]string{"other"})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, e := range []envfile.Environment{e, changed} {
		back, err := envfile.Read("condaFile", e.Text())
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, e.Text())
			return
		}
		if !slices.Equal(back.Channels, e.Channels) || !slices.Equal(back.Requirements, e.Requirements) || !maps.Equal(back.Variables, e.Variables) {
			t.Errorf("%s: %+v became %+v", name, e, back)
		}
	}
}

// pixi is a manifest with some tables.
func pixi(tables string) string {
	return "[workspace]\nchannels = [\"a\"]\nplatforms = [\"linux-64\", \"linux-aarch64\"]\n" + tables
}

func TestPixiManifestIsRefused(t *testing.T) {
	t.Parallel()
	deep := func(open, end string) string { return pixi("[tasks]\nx = " + strings.Repeat(open, 100_000) + end) }
	for _, tc := range []struct{ name, text, environment, want string }{
		{"another platform", strings.ReplaceAll(pixi("[dependencies]\na = \"*\"\n"), `"linux-64", `, ""), "", `the environment "default" is not for linux-64; its platforms are linux-aarch64`},
		{"a platform that a feature excludes", pipeline, "report", `"report" is not for linux-aarch64; its platforms are linux-64`},
		{"a missing environment", pipeline, "gpu", `no environment "gpu"; it has default, lint, report, torch`},
		{"PyPI", pipeline, "torch", `1 packages of PyPI ("torch")`},
		{"PyPI of a project", pyproject, "test", `1 packages of PyPI ("pytest")`},
		{"differing platforms", pixi("[dependencies]\na = \"*\"\n[target.linux-64.dependencies]\nb = \"*\"\n"), "", "request one platform at a time"},
		{"differing targets", pixi("[target.linux-64.dependencies]\na = \"1\"\n[target.linux.dependencies]\na = \"2\"\n"), "", `target.linux-64.dependencies has "a"`},
		{"no packages", pixi(""), "", "has no dependencies"},
		{"no workspace", "[dependencies]\na = \"*\"\n", "", "[workspace] must list channels and platforms"},
		{"a project alone", "[project]\nname = \"a\"\n", "", "[workspace] must list channels and platforms"},
		{"a project with some of pixi's", "[project]\nname = \"a\"\n[tool.pixi.dependencies]\na = \"*\"\n", "", "[tool.pixi.workspace] must list"},
		{"a missing feature", pixi("[environments]\ndefault = [\"x\"]\n"), "", "there is no table [feature.x]"},
		{"a feature twice", pixi("[feature.x]\n[environments]\ndefault = [\"x\", \"x\"]\n"), "", "environments.default lists the feature \"x\" twice"},
		{"a package at a path", pixi("[dependencies]\na = { path = \".\" }\n"), "", "dependencies.a has path"},
		{"a malformed version", pixi("[dependencies]\na = \"1.0 py_0\"\n"), "", "is not a version"},
		{"a version with a bracket", pixi("[dependencies]\na = '*\"]'\n"), "", "is not a version"},
		{"a build with a bracket", pixi("[dependencies]\na = { build = 'b\"]' }\n"), "", "characters that are not allowed"},
		{"a malformed package name", pixi("[dependencies]\n\"a::b\" = \"*\"\n"), "", "is not the name of a package"},
		{"a version that is a number", pixi("[dependencies]\na = 1.2\n"), "", "dependencies.a must be a version"},
		{"an invalid channel of a package", pixi("[dependencies]\na = { channel = \"/srv/c\" }\n"), "", "dependencies.a.channel"},
		{"an unknown key", pixi("[dependencies]\na = { when = \"x\" }\n"), "", `dependencies.a: "when" is not read`},
		{"an invalid channel", strings.ReplaceAll(pixi("[dependencies]\na = \"*\"\n"), `["a"]`, `["file:///c"]`), "", "workspace.channels[0]"},
		{"constraints", pixi("[dependencies]\na = \"*\"\n[constraints]\nb = \">1\"\n"), "", "constraints is not supported"},
		{"activation scripts", pixi("[dependencies]\na = \"*\"\n[activation]\nscripts = [\"a.sh\"]\n"), "", "activation.scripts names files"},
		{"a variable that refers to another", pixi("[dependencies]\na = \"*\"\n[activation.env]\nA = \"$HOME/a\"\n"), "", "activation.env.A refers to another variable"},
		{"PATH", pixi("[dependencies]\na = \"*\"\n[activation.env]\nPATH = \"/a\"\n"), "", "activation.env: PATH is set by the image"},
		{"another channel priority", strings.Replace(pixi("[dependencies]\na = \"*\"\n"), "\n", "\nchannel-priority = \"disabled\"\n", 1), "", "workspace.channel-priority may only be \"strict\""},
		{"another solve strategy", pixi("[dependencies]\na = \"*\"\n[feature.x]\nsolve-strategy = \"lowest\"\n[environments]\ndefault = [\"x\"]\n"), "", "feature.x.solve-strategy may only be"},
		{"exclude-newer", strings.Replace(pixi("[dependencies]\na = \"*\"\n"), "\n", "\nexclude-newer = 2025-01-01\n", 1), "", "exclude-newer is not supported"},
		{"pixi-build", strings.Replace(pixi("[host-dependencies]\na = \"*\"\n"), "\n", "\npreview = [\"pixi-build\"]\n", 1), "", "host-dependencies is not allowed with the preview feature"},
		{"development packages", pixi("[dependencies]\na = \"*\"\n[dev]\nb = { path = \"b\" }\n"), "", "dev is not supported"},
		{"an unknown table", pixi("[dependencies]\na = \"*\"\n[conda]\nb = 1\n"), "", `"conda" is not read`},
		{"malformed TOML", pixi("[dependencies\n"), "", "line 4 is not valid TOML"},
		{"a duplicate key", pixi("[dependencies]\na = \"1\"\na = \"2\"\n"), "", "line 6 is not valid TOML"},
		{"deep lists", deep("[\n", ""), "", "nested too deeply"},
		{"deep tables", deep("{a=", ""), "", "characters"},
		{"deep lists behind strings", deep("[\"]\",\n", ""), "", "nested too deeply"},
		{"deep lists behind comments", deep("[# ]\n", ""), "", "nested too deeply"},
		{"deep keys", pixi("a" + strings.Repeat(".a", 60) + " = 1\n"), "", "nested too deeply"},
		{"many keys", pixi("[tasks]\n" + strings.Repeat("a.b = 1\n", 10_000)), "", "too many lines"},
		{"long", pixi(strings.Repeat("#\n", 600_000)), "", "longer than 1 MiB"},
	} {
		begin := time.Now()
		_, err := envfile.ReadPixi("condaFile", tc.text, tc.environment, []string{"linux-64", "linux-aarch64"})
		if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "condaFile: ") {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("%s: it took %v", tc.name, d)
		}
	}
}

// FuzzPixiManifest checks that each manifest that is read is an environment file with the same
// content, of packages with the names of the manifest.
func FuzzPixiManifest(f *testing.F) {
	f.Add(pipeline, "report")
	f.Add(pyproject, "")
	f.Add(pixi("[dependencies]\na = { version = '1|2', build = '*_0', channel = 'c' }\n[activation.env]\nA = \"\\u0007é\"\n"), "default")
	f.Add(pixi("[dependencies]\na = '''\n*'''\n[[tasks]]\nb.c = 1979-05-27T07:32:00Z # x\n"), "")
	f.Fuzz(func(t *testing.T, text, environment string) {
		e, err := envfile.ReadPixi("condaFile", text, environment, []string{"linux-64"})
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		isSameFile(t, text, e)
		for _, r := range e.Requirements {
			m, err := spec.ParseMatchSpec(r.Text)
			if err != nil || m.URL != "" || r.Pip || !strings.Contains(strings.ToLower(text), m.Name) {
				t.Errorf("%q: %+v, %v", text, r, err)
			}
		}
	})
}
