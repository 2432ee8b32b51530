package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
)

func parsed(t *testing.T, s policy.Settings) *policy.Rules {
	t.Helper()
	r, err := policy.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ref(t *testing.T, name string) oci.Reference {
	t.Helper()
	r, err := oci.ParseReference(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestImage(t *testing.T) {
	t.Parallel()
	r := parsed(t, policy.Settings{
		Registries: []string{"quay.io", "docker.io/library", "ghcr.io/lab/tools", "localhost:5000"}, Defaults: []string{"docker.io/mambaorg/micromamba:2"},
	})
	for name, want := range map[string]bool{
		"quay.io/any/thing:1": true, "QUAY.io/any/thing:1": true, "quay.io:443/any/thing": true, "quay.io:8443/any/thing": false, "quay.io.evil.org/any": false,
		"ubuntu": true, "docker.io/library/ubuntu:1": true, "docker.io/library2/ubuntu": false, "docker.io/someone/library": false, "index.docker.io/library/ubuntu": true,
		"registry-1.docker.io/library/ubuntu": true, "registry-1.docker.io/someone/ubuntu": false,
		"ghcr.io/lab/tools": true, "ghcr.io/lab/tools/samtools": true, "ghcr.io/lab/tools2": false, "ghcr.io/lab": false,
		"localhost:5000/x": true, "localhost:5001/x": false, "127.0.0.1:5000/x": false,
		"docker.io/mambaorg/micromamba:1": true, "docker.io/mambaorg/other": false,
	} {
		got := r.Image("containerImage", ref(t, name))
		if (len(got) == 0) != want {
			t.Errorf("%s: %v", name, got)
		}
		if len(got) > 0 && !strings.Contains(got[0].Text, "containerImage: The registry of ") || len(got) > 0 && !strings.Contains(got[0].Text, "(policy_registries)") {
			t.Errorf("%s: %s", name, got[0].Text)
		}
	}
	if got := parsed(t, policy.Settings{}).Image("", ref(t, "ubuntu")); got != nil {
		t.Errorf("without rules: %v", got)
	}
}

func TestRequiresSignature(t *testing.T) {
	t.Parallel()
	r := parsed(t, policy.Settings{Signatures: []string{"*=a", "quay.io/lab=b", "quay.io/lab/deep=c"}, Defaults: []string{"ubuntu:24.04"}})
	for name, want := range map[string]string{
		"quay.io/lab/x": "quay.io/lab", "quay.io:443/lab/x": "quay.io/lab", "quay.io/lab/deep/x": "quay.io/lab/deep", "quay.io/lab2/x": "*", "ghcr.io/x/y": "*", "ubuntu:22.04": "",
	} {
		if _, got := r.RequiresSignature(ref(t, name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// resolve resolves names like the default settings.
func resolve(name string) ([]string, error) {
	switch {
	case name == "nodefaults":
		return nil, nil
	case name == "":
		return nil, errors.New("empty")
	case strings.Contains(name, "://"):
		return []string{strings.TrimRight(name, "/")}, nil
	}
	return []string{"https://conda.anaconda.org/" + name}, nil
}

func TestChannels(t *testing.T) {
	t.Parallel()
	r := parsed(t, policy.Settings{Channels: []string{"conda-forge", "https://conda.example.org/own/", "pypi"}})
	for name, want := range map[string]bool{
		"conda-forge": true, "https://conda.anaconda.org/conda-forge": true, "https://conda.anaconda.org/conda-forge/": true, "https://conda.example.org/own": true, "nodefaults": true, "pypi": true,
		"bioconda": false, "https://conda.anaconda.org/conda-forge/label/main": false, "https://evil.example.org/conda-forge": false, "cran": false, "": false,
	} {
		if got := r.Channels("packages", []string{name}, resolve); (len(got) == 0) != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	got := r.Channels("packages", []string{"a", "b", "a"}, resolve)
	if len(got) != 1 || !strings.Contains(got[0].Text, "The channels a, b are not allowed here (policy_channels): allowed are conda-forge, ") {
		t.Errorf("it returned %v", got)
	}
}

func TestLicenses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refused []string
		license string
		want    bool // whether it is permitted
	}{
		{[]string{"GPL-3.0-only"}, "GPL-3.0-only", false},
		{[]string{"GPL-3.0-only"}, "gpl-3.0-only", false},
		{[]string{"GPL-3.0-only"}, "GPL-3.0", false},
		{[]string{"GPL-3.0"}, "GPL-3.0-only", false},
		{[]string{"GPL-3.0-only"}, "GPL-3.0-or-later", true},
		{[]string{"GPL-3.0-or-later"}, "GPL-3.0+", false},
		{[]string{"GPL-3.0*"}, "GPL-3.0-or-later", false},
		{[]string{"GPL-3.0*"}, "GPL-3.0", false},
		{[]string{"GPL-*"}, "LGPL-3.0-only", true},
		{[]string{"GPL-3.0*"}, "MIT OR GPL-3.0-only", true},
		{[]string{"GPL-3.0*"}, "GPL-3.0-only OR MIT", true},
		{[]string{"GPL-3.0*", "MIT"}, "GPL-3.0-only OR MIT", false},
		{[]string{"GPL-3.0*"}, "MIT AND GPL-3.0-only", false},
		{[]string{"GPL-3.0*"}, "MIT OR Apache-2.0 AND GPL-3.0-only", true},
		{[]string{"GPL-3.0*"}, "(MIT OR Apache-2.0) AND GPL-3.0-only", false},
		{[]string{"GPL-3.0*"}, "(MIT OR GPL-3.0-only) AND BSD-3-Clause", true},
		{[]string{"GPL-3.0*"}, "(MIT AND GPL-3.0-only) OR (BSD-3-Clause AND GPL-3.0-or-later)", false},
		{[]string{"GPL-3.0*"}, "GPL-3.0-only WITH GCC-exception-3.1", true},
		{[]string{"GPL-3.0* WITH *"}, "GPL-3.0-only WITH GCC-exception-3.1", false},
		{[]string{"GPL-3.0* WITH *"}, "GPL-3.0-only", true},
		{[]string{"GPL-3.0-only WITH GCC-exception-3.1"}, "GPL-3.0-only WITH GCC-exception-3.1", false},
		{[]string{"GPL-2.0*"}, "GPL-2 | GPL-3", true},
		{[]string{"GPL-*"}, "GPL-2 | GPL-3", false},
		{[]string{"GPL-*"}, "GPL (>= 2)", false},
		{[]string{"GPL-*"}, "GPLv3", false},
		{[]string{"GPL-*"}, "GPL-2 | file LICENSE", false},
		{[]string{"GPL-*"}, "GPL-3 + file LICENSE", false},
		{[]string{"AGPL-*"}, "AGPL-3 | file LICENCE", false},
		{[]string{"LGPL-*"}, "LGPL (>= 2.1)", false},
		{[]string{"GPL-*"}, "MIT | GPL-3", true},
		{[]string{"GPL-3.0*"}, "GPL-3.0-with-GCC-exception", true},
		{[]string{"GPL-3.0* WITH GCC*"}, "GPL-3.0-with-GCC-exception", false},
		{[]string{"Apache-2.0"}, "Apache-2.0+", false},
		{[]string{"GPL-*"}, "Proprietary", true},
		{[]string{"UNKNOWN"}, "Proprietary", false},
		{[]string{"UNKNOWN"}, "", false},
		{[]string{"UNKNOWN"}, "MIT", true},
		{[]string{"UNKNOWN"}, "LicenseRef-Own", true},
		{[]string{"GPL-*"}, "", true},
	} {
		r := parsed(t, policy.Settings{Licenses: c.refused})
		got := r.Packages("packages", []policy.Package{{Name: "a", Version: "1", License: c.license}}, time.Now(), resolve)
		if (len(got) == 0) != c.want {
			t.Errorf("%v of %q: %v", c.refused, c.license, got)
		}
		if len(got) > 0 && (!strings.Contains(got[0].Text, "a 1 has the license ") || !strings.Contains(got[0].Text, "(policy_licenses_refused)") || !strings.Contains(got[0].Text, c.refused[0])) {
			t.Errorf("the text is %s", got[0].Text)
		}
	}
}

// TestLocked checks that a lock must state what the rules need.
func TestLocked(t *testing.T) {
	t.Parallel()
	r := parsed(t, policy.Settings{Licenses: []string{"GPL-*"}, MinAge: time.Hour})
	if got := r.Packages("", []policy.Package{{Name: "a", Version: "1", Locked: true}}, time.Now(), resolve); len(got) != 2 {
		t.Errorf("a lock without a license and a time: %v", got)
	}
	if got := r.Packages("", []policy.Package{{Name: "a", Version: "1"}}, time.Now(), resolve); len(got) != 0 {
		t.Errorf("a solved package: %v", got)
	}
}

// TestSteps checks that packages that an installer selects are refused if their rules cannot be evaluated.
func TestSteps(t *testing.T) {
	t.Parallel()
	own := func(name string) ([]string, error) {
		switch name {
		case "lab":
			return []string{"https://mirror.example.org/lab"}, nil
		case "defaults":
			return nil, nil
		}
		return resolve(name)
	}
	channels := policy.Settings{Channels: []string{"conda-forge", "lab"}}
	for _, c := range []struct {
		settings policy.Settings
		channels []string
		isLock   bool
		want     int
	}{
		{policy.Settings{}, []string{"any"}, true, 0},
		{channels, []string{"conda-forge", "nodefaults"}, false, 0},
		{channels, []string{"conda-forge", "defaults"}, false, 1},
		{channels, []string{"lab"}, false, 1},
		{channels, nil, true, 1},
		{policy.Settings{Licenses: []string{"GPL-*"}, MinAge: time.Hour}, []string{"conda-forge"}, false, 2},
	} {
		if got := parsed(t, c.settings).Steps("packages", c.channels, c.isLock, own); len(got) != c.want {
			t.Errorf("%v of %v: %v", c.channels, c.settings, got)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)
	r := parsed(t, policy.Settings{MinAge: 7 * 24 * time.Hour})
	for _, c := range []struct {
		created time.Time
		want    int
	}{{now.AddDate(0, 0, -1), 1}, {now.AddDate(0, 0, -8), 0}, {now.AddDate(0, 0, 1), 1}, {time.Time{}, 0}} {
		got := r.Packages("", []policy.Package{{Name: "a", Version: "1", Created: c.created}}, now, resolve)
		if len(got) != c.want || c.want > 0 && !strings.Contains(got[0].Text, "at least 7 days old here (conda_min_age)") {
			t.Errorf("%s: %v", c.created, got)
		}
	}
	if r.HasPackages(false, true) || !r.HasPackages(false, false) || !r.HasPackages(true, true) {
		t.Error("the packages are evaluated at the wrong time")
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	for _, s := range []policy.Settings{
		{Registries: []string{"quay"}}, {Registries: []string{"quay.io/"}}, {Registries: []string{"https://quay.io"}}, {Registries: []string{"quay.io/a:1"}}, {Registries: []string{"quay.io/A"}},
		{Registries: []string{"*"}}, {Registries: []string{""}}, {Registries: []string{"quay.io/a:latest"}}, {Registries: slices.Repeat([]string{"quay.io"}, 2000)},
		{Channels: []string{""}}, {Channels: []string{"a b"}}, {Channels: []string{"ftp://a/b"}}, {Channels: []string{"https://user:secret@a/b"}},
		{Licenses: []string{"GPL3"}}, {Licenses: []string{""}}, {Licenses: []string{"MIT OR Apache-2.0"}}, {Licenses: []string{"Nonsense*"}}, {Licenses: []string{"MIT WITH nonsense"}},
		{Signatures: []string{"quay.io"}}, {Signatures: []string{"quay.io="}}, {Signatures: []string{"=a"}}, {Signatures: []string{"quay=a"}},
	} {
		if _, err := policy.Parse(s); err == nil || !strings.HasPrefix(err.Error(), "policy_") {
			t.Errorf("%.200v: %v", s, err)
		}
	}
	_, err := policy.New(policy.Settings{Signatures: []string{"*=file"}}, func(string) ([]byte, error) { return []byte("nonsense"), nil })
	if err == nil || !strings.Contains(err.Error(), "policy_signatures: file: there is no public key") {
		t.Errorf("a file without keys: %v", err)
	}
}

// FuzzParse checks that the parsers end, and that what they accept can be evaluated.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"quay.io", "docker.io/library", "conda-forge", "GPL-3.0*", "GPL-3.0* WITH *", "UNKNOWN", "(MIT OR Apache-2.0) AND GPL-3.0+", "*=/a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		image := oci.Reference{Registry: "docker.io", Repository: "library/ubuntu", Tag: "1"}
		for _, s := range []policy.Settings{{Registries: []string{text}}, {Channels: []string{text}}, {Licenses: []string{text}}, {Signatures: []string{text}}} {
			r, err := policy.Parse(s)
			if err != nil {
				continue
			}
			r.Image("", image)
			r.RequiresSignature(image)
			r.Channels("", []string{text}, resolve)
			_ = fmt.Sprint(r.Packages("", []policy.Package{{Name: text, License: text, Channel: text}}, time.Now(), resolve))
		}
		all := parsed(t, policy.Settings{Licenses: []string{"GPL-3.0*", "UNKNOWN"}})
		all.Packages("", []policy.Package{{License: text}}, time.Now(), resolve)
	})
}
