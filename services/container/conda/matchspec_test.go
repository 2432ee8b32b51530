package conda

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
)

func TestMatchSpec(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		want MatchSpec
	}{
		{"samtools", MatchSpec{Name: "samtools"}},
		{"samtools=1.20", MatchSpec{Name: "samtools", Version: "=1.20"}},
		{"samtools==1.20", MatchSpec{Name: "samtools", Version: "==1.20"}},
		{"samtools=1.20=h50ea8bc_0", MatchSpec{Name: "samtools", Version: "=1.20", Build: "h50ea8bc_0"}},
		{"samtools==1.20=h50ea8bc_0", MatchSpec{Name: "samtools", Version: "==1.20", Build: "h50ea8bc_0"}},
		{"samtools 1.20", MatchSpec{Name: "samtools", Version: "1.20"}},
		{"samtools 1.20 h50ea8bc_0", MatchSpec{Name: "samtools", Version: "1.20", Build: "h50ea8bc_0"}},
		{" samtools  =1.20 ", MatchSpec{Name: "samtools", Version: "=1.20"}},
		{"numpy>=1.22,<2", MatchSpec{Name: "numpy", Version: ">=1.22,<2"}},
		{"numpy >=1.22, <2.0a0", MatchSpec{Name: "numpy", Version: ">=1.22, <2.0a0"}},
		{"numpy>=1,!=1.2", MatchSpec{Name: "numpy", Version: ">=1,!=1.2"}},
		{"numpy!=1.2", MatchSpec{Name: "numpy", Version: "!=1.2"}},
		{"numpy~=1.2", MatchSpec{Name: "numpy", Version: "~=1.2"}},
		{"python=3.11|3.12", MatchSpec{Name: "python", Version: "=3.11|3.12"}},
		{"python (>=3.9,<3.10)|3.12.*", MatchSpec{Name: "python", Version: "(>=3.9,<3.10)|3.12.*"}},
		{"pytorch=*=*cuda*", MatchSpec{Name: "pytorch", Version: "=*", Build: "*cuda*"}},
		{"x=1!2.0+local.1", MatchSpec{Name: "x", Version: "=1!2.0+local.1"}},
		{"conda-forge::procps-ng", MatchSpec{Channel: "conda-forge", Name: "procps-ng"}},
		{"conda-forge/linux-64::r-base=4.3", MatchSpec{Channel: "conda-forge/linux-64", Name: "r-base", Version: "=4.3"}},
		{"https://conda.example.org/c::bwa", MatchSpec{Channel: "https://conda.example.org/c", Name: "bwa"}},
		{"_libgcc_mutex", MatchSpec{Name: "_libgcc_mutex"}},
		{"7zip", MatchSpec{Name: "7zip"}},
		{"a.b-c_D", MatchSpec{Name: "a.b-c_D"}},
		{"bwa[version='>=0.7,<1', build=h1_0]", MatchSpec{Name: "bwa", Options: "version='>=0.7,<1', build=h1_0"}},
		{"bwa=0.7[channel=bioconda]", MatchSpec{Name: "bwa", Version: "=0.7", Options: "channel=bioconda"}},
	} {
		t.Run(tc.in, func(t *testing.T) {
			t.Parallel()
			got, err := ParseMatchSpec(tc.in)
			got.text, got.body, got.hasChannel, got.hasOptions = "", "", false, false
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v\nwant %+v", got, err, tc.want)
			}
		})
	}
}

func TestNoMatchSpec(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", " ", "-n", "--file=x", "..", "./bwa", "/bwa", "bwa;id", "bwa&&id", "bwa|", "bwa>", "bwa=", "bwa >x; id", "bwa\nid", "bwa\x00",
		"$(id)", "`id`", "bwa$(id)", "bwa=$HOME", "bwa='1'", `bwa="1"`, "bwa=1 2 3", "bwa=1,,2", "bwa=(1", "bwa=1)", "bwa=1(2)", "bwä",
		"::bwa", "pip::", "a::b::c", "-x::bwa", "a b::bwa", "a;b::bwa", "https://u:p@h/c::bwa", "bwa[", "bwa[]", "bwa[version]", "bwa[x=1]",
		"bwa[version=1", "bwa[version='1]", "bwa[version=1]x", "bwa[version=1;id]", "bwa[version=1,]", "http://h/p.conda", "file:///etc/passwd",
		"bwa#comment", "bwa\\", "bwa {1}", "bwa=1*$(x)", strings.Repeat("a", maxSpec+1), "bwa=" + strings.Repeat("(", 30) + "1" + strings.Repeat(")", 30),
	} {
		if got, err := ParseMatchSpec(in); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q was read as %+v, %v", in, got, err)
		}
	}
}

// FuzzMatchSpec looks for a text that gets through and means something to a shell,
// to YAML or to a command line.
func FuzzMatchSpec(f *testing.F) {
	for _, s := range []string{"a", "c::a=1=b", "a >=1,<2|3", "a[version='1,2',build=x]", "https://h/c::a 1.0 b", "-a", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		m, err := ParseMatchSpec(in)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", in, err)
			}
			return
		}
		if !isPackageName(m.Name) || strings.HasPrefix(strings.TrimSpace(in), "-") || strings.ContainsAny(in, "\n\r;&`{}#\\") {
			t.Errorf("%q was read as %+v", in, m)
		}
		if strings.Contains(in, "$") && m.Options == "" && m.Channel == "" {
			t.Errorf("%q was read as %+v", in, m)
		}
	})
}

func TestChannels(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"conda-forge": true, "bioconda": true, "pkgs/main": true, "conda-forge/label/rust_dev": true, "nvidia": true,
		"https://conda.anaconda.org/conda-forge": true, "http://127.0.0.1:8080/c": true, "https://h/t/tk-123/get/c": true,
		"": false, "-c": false, "../x": false, "/x": false, "a//b": false, "a b": false, "a\nb": false, "file:///x": false, "ftp://h/x": false,
		"https://u:p@h/x": false, "https://": false, "https://h/$(id)": false, "https://h/a b": false, "https://h/\"x": false, "a;b": false,
		"https:opaque": false, "s3://b/c": false,
	} {
		if err := checkChannel(in); (err == nil) != want {
			t.Errorf("%q: %v", in, err)
		}
	}
}
