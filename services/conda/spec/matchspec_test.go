package spec_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/condadata"
)

func TestParseMatchSpec(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"samtools", "samtools"},
		{" SAMtools ", "samtools"},
		{"samtools=1.20", "samtools 1.20.*"},
		{"samtools =1.20", "samtools 1.20.*"},
		{"samtools==1.20", "samtools 1.20"},
		{"samtools 1.20", "samtools 1.20"},
		{"samtools=1.20=h50ea8bc_0", "samtools 1.20 h50ea8bc_0"},
		{"samtools 1.20 h50ea8bc_*", "samtools 1.20 h50ea8bc_*"},
		{"samtools>=1.2,<2", "samtools >=1.2,<2"},
		{"samtools >= 1.2 , < 2", "samtools >=1.2,<2"},
		{"samtools >=1.2,<2 *_0", "samtools >=1.2,<2 *_0"},
		{"libgcc-ng ==16.1.0=*_0", "libgcc-ng 16.1.0 *_0"},
		{"liblapack =3.9.0=27*_mkl", "liblapack 3.9.0 27*_mkl"},
		{"libabseil =*=cxx17*", "libabseil * cxx17*"},
		{"libblas  3.11.0   1*_mkl", "libblas 3.11.0 1*_mkl"},
		{"__cuda  >= 11.0", "__cuda >=11.0"},
		{"python 2.7|>=3.6", "python 2.7|>=3.6"},
		{"python ==2.7.*|>=3.4", "python 2.7.*|>=3.4"},
		{"python (>=2.7,<3)|3.12.*", "python >=2.7,<3|3.12.*"},
		{"python >=3,(3.9|3.10)", "python >=3,(3.9|3.10)"},
		{"python >=3.10.*", "python >=3.10"},
		{"python *", "python"},
		{"python >=3.8,*", "python >=3.8"},
		{"python >=3.8|*", "python"},
		{"pkg 1.*.3", "pkg 1.*.3"},
		{"pkg ~=1.4.2", "pkg ~=1.4.2"},
		{"x264 >=1!164.3095,<1!165", "x264 >=1!164.3095,<1!165"},
		{"conda-forge::samtools=1.20", "conda-forge::samtools 1.20.*"},
		{"conda-forge/noarch::samtools", "conda-forge/noarch::samtools"},
		{"pkgs/main::python", "pkgs/main::python"},
		{"https://conda.anaconda.org/bioconda::bwa", "https://conda.anaconda.org/bioconda::bwa"},
		{"bwa[version='>=0.7,<1', build=*_3]", "bwa >=0.7,<1 *_3"},
		{`bwa[channel=bioconda, subdir="linux-64", md5=ABCDEF]`, `bioconda/linux-64::bwa[md5="abcdef"]`},
		{"bwa[build_number='>=3']", `bwa[build_number=">=3"]`},
		{`bwa[version="^1\.[23]$"]`, `bwa[version="^1\.[23]$"]`},
		{"bwa >=0.7 # aligner", "bwa >=0.7"},
	} {
		m, err := spec.ParseMatchSpec(c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		if got := m.String(); got != c.want {
			t.Errorf("%q is %q, want %q", c.in, got, c.want)
		}
	}
}

func TestParseMatchSpecRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		kind fault.Kind
	}{
		{"", fault.Invalid},
		{"# nothing", fault.Invalid},
		{"-c", fault.Invalid},
		{"--file=x", fault.Invalid},
		{"../bwa", fault.Invalid},
		{"/etc/passwd", fault.Invalid},
		{"https://example.org/bwa-1-0.conda", fault.Invalid},
		{"bwa >=", fault.Invalid},
		{"bwa ===1", fault.Invalid},
		{"bwa 1 2 3", fault.Invalid},
		{"bwa >=1)", fault.Invalid},
		{"bwa (>=1", fault.Invalid},
		{"bwa\nevil", fault.Invalid},
		{"bwa $(id)", fault.Invalid},
		{"bwa[version=1", fault.Invalid},
		{"bwa[colour=red]", fault.Invalid},
		{"bwa[md5=zz]", fault.Invalid},
		{"bwa[version='1'] x", fault.Invalid},
		{"::bwa", fault.Invalid},
		{"bwä", fault.Invalid},
		{"numpy; if python >=3.8", fault.Unsupported},
		{`numpy[when="python >=3.8"]`, fault.Unsupported},
		{"numpy[extras=[a, b]]", fault.Unsupported},
		{"numpy " + strings.Repeat("(", limits.CondaParentheses+1) + "1" + strings.Repeat(")", limits.CondaParentheses+1), fault.Invalid},
		{"numpy " + strings.Repeat(">1,", limits.CondaConstraints) + ">1", fault.Invalid},
		{"numpy " + strings.Repeat(">=1,", 10_000) + "<2", fault.Invalid},
		{"numpy " + strings.Repeat("(", 100_000), fault.Invalid},
		{"numpy ^" + strings.Repeat("(a{100}){100}", 60) + "$", fault.Invalid},
	} {
		began := time.Now()
		_, err := spec.ParseMatchSpec(c.in)
		if !errors.Is(err, c.kind) {
			t.Errorf("%.60q: %v, want a fault of kind %v", c.in, err, c.kind)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%.60q is rejected after %v", c.in, took)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("%.60q: the error has %d bytes", c.in, len(err.Error()))
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	r := spec.Record{
		Name: "numpy", Version: "1.26.4", Build: "py312heda63a1_3", BuildNumber: 3, Channel: "https://conda.anaconda.org/conda-forge/",
		Subdir: "linux-64", TrackFeatures: []string{"a"}, SHA256: "ab", License: "BSD-3-Clause",
	}
	for _, c := range []struct {
		spec string
		want bool
	}{
		{"numpy", true},
		{"scipy", false},
		{"numpy 1.26.*", true},
		{"numpy 1.2.*", false},
		{"numpy 1.26", false},
		{"numpy=1.26", true},
		{"numpy >=1.26,<2 py312*", true},
		{"numpy >=1.26,<2 py311*", false},
		{"numpy * *_3", true},
		{"numpy[build='^py3[0-9]+.*$']", true},
		{"numpy[build='^py2.*$']", false},
		{"numpy[build_number=3]", true},
		{"numpy[build_number='>3']", false},
		{"conda-forge::numpy", true},
		{"forge::numpy", false},
		{"https://conda.anaconda.org/conda-forge::numpy", true},
		{"conda-forge/noarch::numpy", false},
		{"numpy[sha256=AB]", true},
		{"numpy[sha256=AC]", false},
		{"numpy[track_features=a]", true},
		{"numpy[track_features='a b']", false},
		{"numpy[license=BSD-3-Clause]", true},
		{"numpy 1.*.4", true},
		{"numpy 1.*.5", false},
	} {
		m, err := spec.ParseMatchSpec(c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
			continue
		}
		if got := m.Match(&r); got != c.want {
			t.Errorf("%q matches: %v, want %v", c.spec, got, c.want)
		}
	}
}

// TestChannelsAreRead checks that every specification and version of the channels can be
// parsed, formatted and parsed again.
func TestChannelsAreRead(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, subdir := range []string{"linux-64", "noarch", "linux-aarch64"} {
		for _, records := range condadata.Records(t, "conda-forge", subdir) {
			for i := range records {
				if _, err := spec.ParseVersion(records[i].Version); err != nil {
					t.Error(err)
				}
				for _, text := range append(records[i].Depends, records[i].Constrains...) {
					if !seen[text] {
						seen[text] = true
						readTwice(t, text)
					}
				}
			}
		}
	}
	if len(seen) < 10_000 {
		t.Errorf("only %d specifications were read", len(seen))
	}
}

func readTwice(t *testing.T, text string) {
	t.Helper()
	m, err := spec.ParseMatchSpec(text)
	if err != nil {
		t.Errorf("%q: %v", text, err)
		return
	}
	again, err := spec.ParseMatchSpec(m.String())
	if err != nil || again.String() != m.String() {
		t.Errorf("%q is %q, and then %q (%v)", text, m.String(), again.String(), err)
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	text, err := spec.ParseVersionSpec(">=1.2,<2,!=1.5")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range text.Without() {
		got = append(got, s.String())
	}
	if want := "<2,!=1.5 >=1.2,!=1.5 >=1.2,<2"; strings.Join(got, " ") != want {
		t.Errorf("without one bound: %q, want %q", got, want)
	}
}

func TestVirtualPackage(t *testing.T) {
	t.Parallel()
	p, err := spec.ParseVirtualPackage("__archspec", "1=x86_64_v3")
	if err != nil || p.String() != "__archspec=1=x86_64_v3" || p.Record().Build != "x86_64_v3" {
		t.Errorf("read %v, %v", p, err)
	}
	for _, c := range [][2]string{{"glibc", "2"}, {"__glibc", ""}, {"__glibc", "2="}, {"__Glibc", "2"}, {"__a b", "1"}, {"__x", "a b"}} {
		if _, err := spec.ParseVirtualPackage(c[0], c[1]); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q is read: %v", c, err)
		}
	}
}

func FuzzMatchSpec(f *testing.F) {
	for _, s := range []string{"a =1.2=b_*", `c/noarch::a[version=">=1,<2|3.*", build='^x$'] # c`, "a (1|2),!=3", "a ^1$", "a 1.*.2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := spec.ParseMatchSpec(text)
		if err != nil {
			if _, ok := fault.As(err); !ok {
				t.Errorf("%q: not a fault: %v", text, err)
			}
			return
		}
		readTwice(t, text)
		m.Match(&spec.Record{Name: m.Name, Version: "1.2", Build: "h_0"})
	})
}

func FuzzVersion(f *testing.F) {
	f.Add("1!2.0_post3+local-1", "1.0dev", ">=1.2,<2|1.*")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		compare(a, b)
		match(text, a)
		v, err := spec.ParseVersion(a)
		w, err2 := spec.ParseVersion(b)
		if err == nil && err2 == nil && v.Compare(w) != -w.Compare(v) {
			t.Errorf("%q and %q are not ordered", a, b)
		}
	})
}

// TestLongPattern checks that a short regular expression that expands to a long one is
// rejected.
func TestLongPattern(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`^py3[0-9]+_.*$`:                            true,
		`^(cuda|cpu)_h[0-9a-f]{7}_[0-9]+$`:          true,
		`^` + strings.Repeat(`\pL{1000}`, 20) + `$`: false,
		`^` + strings.Repeat(`a{1000}`, 30) + `$`:   false,
		`^(((a{0,10}){0,10}){0,9})(.{999}){1}$`:     false,
	} {
		if _, err := spec.ParsePattern(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
