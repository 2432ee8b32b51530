package conda

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

func entries(list ...string) *containerv1.Packages {
	return &containerv1.Packages{Type: "CONDA", Entries: list}
}

func options(o *containerv1.CondaOptions) *containerv1.Packages {
	return &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}, CondaOpts: o}
}

func fileOf(r Recipe, path string) string {
	for _, f := range r.Files() {
		if f.GetPath() == path {
			return string(f.GetContent())
		}
	}
	return ""
}

// read reads packages, or only a file if packages is nil.
func read(p *containerv1.Packages, file string) (Recipe, error) {
	if p == nil {
		return ReadFile(file, nil, Defaults{})
	}
	return Read(p, file, nil, Defaults{})
}

func TestRecipe(t *testing.T) {
	t.Parallel()
	const head = "channels:\n  - \"conda-forge\"\n  - \"bioconda\"\ndependencies:\n"
	const base = head + "  - \"conda-forge::procps-ng\"\n"
	for _, tc := range []struct {
		name                string
		in                  *containerv1.Packages
		file                string
		yaml, base, lockURL string
	}{
		{"entries", entries("samtools=1.20", " numpy >=1,<2"), "", head + "  - \"samtools=1.20\"\n  - \"numpy >=1,<2\"\n", base, ""},
		{"pip", entries("pip:numpy[x]>=2; python_version<\"3.13\"", "python"), "", head +
			"  - \"python\"\n  - \"pip\"\n  - pip:\n      - \"numpy[x]>=2; python_version<\\\"3.13\\\"\"\n", base, ""},
		{"pip that is named", entries("pip=24", "pip:numpy"), "", head + "  - \"pip=24\"\n  - pip:\n      - \"numpy\"\n", base, ""},
		{"lock", entries("https://h.example/a/conda-linux-64.lock?x=1"), "", "", base, "https://h.example/a/conda-linux-64.lock?x=1"},
		{"channels", &containerv1.Packages{Entries: []string{"bwa"}, Channels: []string{"https://h.example/c", "bioconda"}}, "",
			"channels:\n  - \"https://h.example/c\"\n  - \"bioconda\"\ndependencies:\n  - \"bwa\"\n",
			"channels:\n  - \"https://h.example/c\"\n  - \"bioconda\"\ndependencies:\n  - \"conda-forge::procps-ng\"\n", ""},
		{"no base packages", options(&containerv1.CondaOptions{BasePackages: proto.String("")}), "", head + "  - \"bwa\"\n", "", ""},
		{"other base packages", options(&containerv1.CondaOptions{BasePackages: proto.String(" a=1  b ")}), "", head + "  - \"bwa\"\n", head + "  - \"a=1\"\n  - \"b\"\n", ""},
		{"conda file", nil, "channels: [x]\ndependencies: [bwa]\n", "channels: [x]\ndependencies: [bwa]\n",
			"channels:\n  - \"x\"\ndependencies:\n  - \"conda-forge::procps-ng\"\n", ""},
		{"environment", &containerv1.Packages{}, "dependencies: [bwa]\n", "dependencies: [bwa]\nchannels:\n  - \"conda-forge\"\n  - \"bioconda\"\n", base, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := read(tc.in, tc.file)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{fileOf(r, ".slipway/conda.yml"), fileOf(r, ".slipway/base.yml"), fileOf(r, ".slipway/lock-url"), r.Environment.Text(), r.LockURL}
			if diff := cmp.Diff([]string{tc.yaml, tc.base, tc.lockURL, tc.yaml, tc.lockURL}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if fileOf(r, ".slipway/install.sh") != installer {
				t.Error("the installer is missing")
			}
		})
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	const want = `FROM %m AS build
USER 0
COPY .slipway/ /.slipway/
RUN ["sh", "/.slipway/install.sh"]

FROM %b
COPY --from=build /opt/conda /opt/conda
ENV PATH=/opt/conda/bin:$PATH
`
	for _, tc := range []struct {
		name        string
		opts        *containerv1.CondaOptions
		mamba, base string
		more        string
		usual       Defaults
	}{
		{"the operator's", nil, "h:5000/m:2", "docker.io/library/debian:12", "", Defaults{Mamba: "h:5000/m:2", Base: "debian:12"}},
		{"the request's", &containerv1.CondaOptions{BaseImage: "alpine"}, "h:5000/m:2", "docker.io/library/alpine:latest", "", Defaults{Mamba: "h:5000/m:2", Base: "debian:12"}},
		{"defaults", nil, "docker.io/mambaorg/micromamba:2-amazon2023", "docker.io/library/ubuntu:24.04", "", Defaults{}},
		{"images", &containerv1.CondaOptions{MambaImage: "h:5000/m", BaseImage: "build"}, "h:5000/m:latest", "docker.io/library/build:latest", "", Defaults{}},
		{"commands", &containerv1.CondaOptions{Commands: []string{"USER 1", "COPY --from=docker.io/library/c:1 /a /b"}},
			"docker.io/mambaorg/micromamba:2-amazon2023", "docker.io/library/ubuntu:24.04", "USER 1\nCOPY --from=docker.io/library/c:1 /a /b\n", Defaults{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, err := Read(options(tc.opts), "", nil, tc.usual)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.NewReplacer("%m", tc.mamba, "%b", tc.base).Replace(want)+tc.more, r.Dockerfile()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestVariablesOfDockerfile checks that installing in steps sets the environment's
// variables, and that the Dockerfile does not interpret their values.
func TestVariablesOfDockerfile(t *testing.T) {
	t.Parallel()
	r, err := ReadFile("dependencies: [bwa]\nvariables:\n  B: '$HOME \"x\" \\'\n  A: 1\n", nil, Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	want := "ENV A=\"1\"\nENV B=\"\\$HOME \\\"x\\\" \\\\\"\n"
	if !strings.HasSuffix(r.Dockerfile(), want) {
		t.Errorf("the Dockerfile is\n%s\nwant at its end\n%s", r.Dockerfile(), want)
	}
}

func TestRecipesThatAreRefused(t *testing.T) {
	t.Parallel()
	channels := entries("bwa")
	channels.Channels = []string{"bioconda", "a b"}
	for _, tc := range []struct {
		name string
		in   *containerv1.Packages
		file string
		want string
	}{
		{"spec", entries("a", "b", "c;id"), "", `packages.entries[2]: "c;id" is not a Conda package specification`},
		{"empty entry", entries("a", ""), "", "packages.entries[1]"},
		{"pip::", entries("pip::numpy"), "", `packages.entries[0]: "pip::numpy" must be pip: and a package`},
		{"pip option", entries("pip:-r/etc/passwd"), "", "packages.entries[0]"},
		{"pip lines", entries("pip:a\n--index-url=x"), "", "packages.entries[0]"},
		{"two locks", entries("https://h/a", "https://h/b"), "", "packages.entries[0]: an http(s) URL"},
		{"lock beside a package", entries("a", "https://h/b"), "", "packages.entries[1]: an http(s) URL"},
		{"lock with a login", entries("https://u:p@h/b"), "", "packages.entries[0]: an http(s) URL"},
		{"lock elsewhere", entries("file:///etc/passwd"), "", "packages.entries[0]: an http(s) URL"},
		{"channel", channels, "", `packages.channels[1]: "a b" is not a channel`},
		{"mamba image", options(&containerv1.CondaOptions{MambaImage: "a\nRUN id"}), "", "packages.condaOpts.mambaImage"},
		{"base image", options(&containerv1.CondaOptions{BaseImage: "a AS b"}), "", "packages.condaOpts.baseImage"},
		{"base packages", options(&containerv1.CondaOptions{BasePackages: proto.String("a b;c")}), "", "packages.condaOpts.basePackages"},
		{"command with NUL", options(&containerv1.CondaOptions{Commands: []string{"RUN x", "RUN \x00"}}), "", "packages.condaOpts.commands[1]"},
		{"environment", &containerv1.Packages{}, "x", "packages.environment must be a Conda environment file"},
		{"conda file", nil, "x", "condaFile must be a Conda environment file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(tc.in, tc.file); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzEntries looks for an entry that affects more than its own string in the environment
// file.
func FuzzEntries(f *testing.F) {
	f.Add("bwa=1", "conda-forge")
	f.Add("pip:a\"b\\", "https://h/c")
	f.Fuzz(func(t *testing.T, entry, channel string) {
		p := entries(entry)
		p.Channels = []string{channel}
		r, err := Read(p, "", nil, Defaults{})
		if err != nil || r.LockURL != "" {
			return
		}
		text := r.Environment.Text()
		var got struct {
			Channels     []string
			Dependencies []any
		}
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want := []any{strings.TrimSpace(entry)}
		if req, ok := strings.CutPrefix(entry, "pip:"); ok {
			want = []any{"pip", map[string]any{"pip": []any{req}}}
		}
		if diff := cmp.Diff(want, got.Dependencies); diff != "" || len(got.Channels) != 1 || got.Channels[0] != channel {
			t.Errorf("%q parses as %+v", text, got)
		}
		if strings.Contains(r.Dockerfile(), entry) && len(entry) > 8 && !strings.Contains(options(nil).String(), entry) {
			t.Errorf("%q is in the Dockerfile", entry)
		}
	})
}

// TestImages checks that a setting that is not an image is rejected with its name.
func TestImages(t *testing.T) {
	t.Parallel()
	for want, i := range map[string]Defaults{"conda_mamba_image: ": {Mamba: "A b"}, "conda_base_image: ": {Base: "https://x"}} {
		if _, err := i.Qualified(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
