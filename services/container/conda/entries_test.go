package conda

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
)

func TestSpecsOfRequests(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"samtools", "samtools=1.20", "samtools==1.20=h50ea8bc_0", "samtools 1.20 h50ea8bc_0", " samtools  =1.20 ", "numpy >=1.22, <2.0a0", "numpy>=1,!=1.2",
		"python (>=3.9,<3.10)|3.12.*", "pytorch=*=*cuda*", "x=1!2.0+local.1", "conda-forge/linux-64::r-base=4.3", "https://conda.example.org/c::bwa", "_libgcc_mutex",
		"7zip", "a.b-c_D", "bwa[version='>=0.7,<1', build=h1_0]", "bwa=0.7[channel=bioconda]", "numpy~=1.2",
	} {
		if err := checkSpec(in); err != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestNoSpecsOfRequests(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", " ", "-n", "--file=x", "..", "./bwa", "/bwa", "bwa;id", "bwa&&id", "bwa|", "bwa>", "bwa=", "bwa >x; id", "bwa\nid", "bwa\tid", "bwa\x00",
		"$(id)", "`id`", "bwa$(id)", "bwa=$HOME", "bwa='1'", `bwa="1"`, "bwa=1 2 3", "bwa=1,,2", "bwa=(1", "bwa=1)", "bwa=1(2)", "bwä",
		"::bwa", "pip::", "-x::bwa", "a b::bwa", "a;b::bwa", "https://u:p@h/c::bwa", "file:///c::bwa", "bwa[", "bwa[version]", "bwa[x=1]",
		"bwa[version=1", "bwa[version='1]", "bwa[version=1]x", "bwa[version=1;id]", "http://h/p.conda", "file:///etc/passwd",
		"bwa[url=http://h/p.conda]", "bwa[fn=bwa-1-0.conda]", "bwa[channel='https://u:p@h/c']",
		"bwa#comment", "bwa # comment", "bwa\\", "bwa {1}", "bwa=1*$(x)", strings.Repeat("a", maxSpec+1), "bwa=" + strings.Repeat("(", 30) + "1" + strings.Repeat(")", 30),
	} {
		if err := checkSpec(in); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// FuzzSpec looks for an accepted string with a meaning to a shell, to YAML or to a command
// line.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{"a", "c::a=1=b", "a >=1,<2|3", "a[version='1,2',build=x]", "https://h/c::a 1.0 b", "-a", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		if err := checkSpec(in); err != nil {
			if _, ok := fault.As(err); !ok {
				t.Errorf("%q: %v", in, err)
			}
			return
		}
		if strings.HasPrefix(strings.TrimSpace(in), "-") || strings.ContainsAny(in, "\n\r;&`{}#$\\") {
			t.Errorf("%q was accepted", in)
		}
	})
}
