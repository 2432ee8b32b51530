package conda

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/fault"
)

// environmentOf is an environment with its items as texts.
type environmentOf struct {
	text, name      string
	channels, items []string
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		channels []string // of the request
		want     environmentOf
	}{
		{"as it stands", "name: x\nchannels: [a, b]\ndependencies:\n- bwa=1\n", nil, environmentOf{
			text: "name: x\nchannels: [a, b]\ndependencies:\n- bwa=1\n", name: "x", channels: []string{"a", "b"}, items: []string{"bwa=1"},
		}},
		{"default channels", "dependencies: [bwa]\n", nil, environmentOf{
			text: "dependencies: [bwa]\nchannels:\n  - \"conda-forge\"\n  - \"bioconda\"\n", channels: []string{"conda-forge", "bioconda"}, items: []string{"bwa"},
		}},
		{"the request's channels come behind", "channels:\n  - a # best\n# rest\ndependencies:\n  - bwa\n", []string{"b", "a"}, environmentOf{
			text: "channels:\n  - \"a\"\n  - \"b\"\n# rest\ndependencies:\n  - bwa\n", channels: []string{"a", "b"}, items: []string{"bwa"},
		}},
		{"indented", "---\n  dependencies: [bwa]\n...\n", []string{"a"}, environmentOf{
			text: "---\n  dependencies: [bwa]\n  channels:\n    - \"a\"\n...\n", channels: []string{"a"}, items: []string{"bwa"},
		}},
		{"pip", "channels: [a]\ndependencies:\n- python=3.12\n- pip\n- pip:\n  - numpy==2.0\n  - -e git+https://h/x\n", nil, environmentOf{
			text:     "channels: [a]\ndependencies:\n- python=3.12\n- pip\n- pip:\n  - numpy==2.0\n  - -e git+https://h/x\n",
			channels: []string{"a"}, items: []string{"python=3.12", "pip", "numpy==2.0", "-e git+https://h/x"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := readEnvironment("condaFile", tc.in, tc.channels)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, environmentOf{got.text, got.name, got.Channels, texts(got.items)}, cmp.AllowUnexported(environmentOf{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
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
		{"deep", "dependencies: " + strings.Repeat("[", 20000), "too deeply"},
		{"long line", strings.Repeat("- ", 18000), "2000 characters"},
		{"NUL", "dependencies: [a]\x00", "not text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			got, err := readEnvironment("condaFile", tc.in, nil)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "condaFile") {
				t.Errorf("got %+v, %v; want %q", got, err, tc.want)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add("name: x\nchannels: [a]\ndependencies:\n- b=1\n- pip:\n  - c\n", "conda-forge")
	f.Add("{dependencies: [a]}", "b")
	f.Add("dependencies: |\n  x\n", "")
	f.Fuzz(func(t *testing.T, text, channel string) {
		var asked []string
		if isChannel(channel) {
			asked = []string{channel}
		}
		e, err := readEnvironment("condaFile", text, asked)
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
		if err := yaml.Unmarshal([]byte(e.text), &got); err != nil || len(got.Channels) == 0 {
			t.Errorf("%q became %q, which reads as %+v, %v", text, e.text, got, err)
		}
	})
}
