package channel_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	names, err := channel.NewNames("https://conda.anaconda.org/", []string{
		"conda-forge=https://mirror.example.org/cf", "conda-forge=https://conda.anaconda.org/conda-forge", "lab=http://conda.lab:8080/x/",
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]string{
		"conda-forge": {"conda-forge", "https://mirror.example.org/cf"},
		"https://conda.anaconda.org/conda-forge/": {"conda-forge", "https://mirror.example.org/cf"},
		"bioconda":                            {"bioconda", "https://conda.anaconda.org/bioconda"},
		"pkgs/main":                           {"pkgs/main", "https://conda.anaconda.org/pkgs/main"},
		"https://conda.anaconda.org/bioconda": {"bioconda", "https://conda.anaconda.org/bioconda"},
		"lab":                                 {"lab", "http://conda.lab:8080/x"},
		"http://conda.lab:8080/y":             {"http://conda.lab:8080/y", "http://conda.lab:8080/y"},
		"oci://GHCR.io/channel-mirrors/conda-forge/": {"oci://ghcr.io/channel-mirrors/conda-forge", "oci://ghcr.io/channel-mirrors/conda-forge"},
		"https://Example.org/a/../b/":                {"https://example.org/b", "https://example.org/b"},
	} {
		if got, err := names.Resolve(text); err != nil || got.Name != want[0] || got.URL != want[1] {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "..", "a/../b", "a b", "/etc", "file:///etc", "http://example.org/c", "https://u:p@example.org/c", "https://example.org/t/tk/c",
		"https://example.org/c?x", "https:///c", "oci://ghcr.io", "oci://ghcr.io/", "oci://ghcr.io/Lab", "oci://u:p@ghcr.io/lab", "oci://ghcr.io/lab?x", "oci://ghcr.io/lab:1", "oci://ghcr.io/a%2Fb", "oci://ghcr/lab", "oci:ghcr.io/lab", "https://example.org/\x00", "a//b",
	} {
		if got, err := names.Resolve(text); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, bad := range [][]string{{"x"}, {"=https://example.org"}, {"a=ftp://example.org"}, {"a=https://u:p@example.org/"}} {
		if _, err := channel.NewNames("https://conda.anaconda.org", bad); err == nil {
			t.Errorf("conda_channels %q is accepted", bad)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	names, err := channel.NewNames("https://conda.anaconda.org", []string{"lab=https://conda.example.org/lab"})
	if err != nil {
		t.Fatal(err)
	}
	if got, note, err := names.Expand("defaults"); got != nil || note == "" || err != nil {
		t.Errorf("without a setting, defaults is %v, %q, %v", got, note, err)
	}
	lab := []string{"lab=https://conda.example.org/lab"}
	next, err := channel.NewNames("https://conda.anaconda.org", lab, "https://repo.example.com/pkgs/main", "lab")
	if err != nil {
		t.Fatal(err)
	}
	names.Replace(next)
	if _, err := channel.NewNames("https://conda.anaconda.org", lab, "file:///x"); err == nil {
		t.Error("conda_defaults accepts a file URL")
	}
	for text, want := range map[string]string{
		"nodefaults": "", "defaults": "https://repo.example.com/pkgs/main https://conda.example.org/lab ", "lab": "https://conda.example.org/lab ",
	} {
		found, note, err := names.Expand(text)
		urls := ""
		for _, c := range found {
			urls += c.URL + " "
		}
		if urls != want || note != "" || err != nil {
			t.Errorf("%s is %q, %q, %v", text, urls, note, err)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names, err := channel.NewNames("https://conda.anaconda.org", []string{"genomics-lab=https://conda.example.org/lab"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"conda-frge": "conda-forge", "condaforge": "conda-forge", "Conda-Forge": "conda-forge", "bioconds": "bioconda", "genomics-labs": "genomics-lab",
		"something-else": "", "x": "", "https://example.org/conda-forge": "", strings.Repeat("conda-forge", 40): "",
	} {
		if got := names.Nearest(text); got != want {
			t.Errorf("the channel nearest to %q is %q, want %q", text, got, want)
		}
	}
}

// FuzzResolve checks that no input resolves to an address with a login or a scheme other
// than http and https.
func FuzzResolve(f *testing.F) {
	names, err := channel.NewNames("https://conda.anaconda.org", nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"conda-forge", "https://example.org/c", "https://u@h/", "http://x", "%2e%2e", "https://example.org/%2e%2e/t/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := names.Resolve(text)
		if err != nil {
			return
		}
		again, err := names.Resolve(c.URL)
		if err != nil || again.URL != c.URL || again.Name != c.Name {
			t.Errorf("%q is %+v, whose name resolves to %+v, %v", text, c, again, err)
		}
	})
}
