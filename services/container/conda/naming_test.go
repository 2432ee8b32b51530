package conda

import (
	"strings"
	"testing"

	"github.com/distribution/reference"

	"slipway.dev/services/conda/envfile"
)

const id = "0123456789abcdef"

func all(items []string) []envfile.Requirement {
	var all []envfile.Requirement
	for _, item := range items {
		all = append(all, envfile.Requirement{Text: item})
	}
	return all
}

func TestNaming(t *testing.T) {
	t.Parallel()
	list := func(items ...string) envfile.Environment { return envfile.Environment{Requirements: all(items)} }
	long := strings.Repeat("x", 30)
	for _, tc := range []struct {
		name                string
		env                 envfile.Environment
		prefix, suffix, tag string // of tagPrefix; path and tag of imageSuffix
	}{
		{"one", list("samtools=1.20"), "samtools-1.20--", "/samtools", "1.20--"},
		{"no version", list("samtools"), "samtools--", "/samtools", ""},
		{"two", list("samtools=1.20", "bwa=0.7.17"), "samtools-1.20_bwa-0.7.17--", "/samtools_bwa", ""},
		{"one version for both", list("samtools=1.20", "bcftools=1.20"), "samtools-1.20_bcftools-1.20--", "/samtools_bcftools", "1.20--"},
		{"one without a version", list("samtools=1.20", "bwa"), "samtools-1.20_bwa--", "/samtools_bwa", ""},
		{"channel", list("bioconda::samtools=1.20"), "samtools-1.20--", "/samtools", "1.20--"},
		{"build", list("samtools=1.20=h1_0"), "samtools-1.20--", "/samtools", "1.20--"},
		{"exact", list("samtools==1.20"), "samtools-1.20--", "/samtools", "1.20--"},
		{"range", list("numpy >=1.22,<2"), "numpy-1.22--", "/numpy", "1.22--"},
		{"brackets", list("bwa[version='>=1']"), "bwa--", "/bwa", ""},
		{"upper case", list("R-Base=4.3RC1"), "r-base-4.3RC1--", "/r-base", "4.3RC1--"},
		{"pip after pip", list("python=3.12", "pip", "NumPy==2.0", "scipy"), "python-3.12_pip_numpy-2.0_scipy--", "/python_pip_numpy_scipy", ""},
		{"twice", list("bwa=1", "bioconda::bwa=1"), "bwa-1--", "/bwa", "1--"},
		{"five", list("a", "b", "c", "d", "e"), "a_b_c_d_e--", "/a_b_c_d_e", ""},
		{"six", list("a", "b", "c", "d", "e", "f"), "a_b_c_d_pruned--", "/a_b_c_d_pruned", ""},
		{"six of one version", list("a=1", "b=1", "c=1", "d=1", "e=1", "f=1"), "a-1_b-1_c-1_d-1_pruned--", "/a_b_c_d_pruned", "1--"},
		{"six with one twice", list("a", "b", "c", "d", "e", "a"), "a_b_c_d_e--", "/a_b_c_d_e", ""},
		{"named", envfile.Environment{Name: "My-Env", Requirements: all([]string{"bwa=1"})}, "my-env--", "/my-env", ""},
		{"badly named", envfile.Environment{Name: " ./ü\n", Requirements: all([]string{"bwa=1"})}, "bwa-1--", "/bwa", "1--"},
		{"named with blanks", envfile.Environment{Name: "rna seq v2"}, "rnaseqv2--", "/rnaseqv2", ""},
		{"nothing", list(), "", "", ""},
		{"URLs", list("https://h/a.conda", "git+https://h/x.git"), "", "", ""},
		{"URL beside", list("https://h/a.conda", "bwa=1"), "bwa-1--", "/bwa", "1--"},
		{"leading underscore", list("_libgcc_mutex=0.1", "_x"), "libgcc_mutex-0.1_x--", "/libgcc_mutex_x", ""},
		{"odd separators", list("a._b=1", "c..d"), "a._b-1_c..d--", "/a_b_c_d", ""},
		{"star", list("python=3.*"), "python-3--", "/python", "3--"},
		{"epoch and local", list("x=1!2.0+cu118"), "x-12.0cu118--", "/x", "12.0cu118--"},
		{"cut at a piece", list(long+"=1", long+"b=1", long+"c=1"), long + "-1_" + long + "b-1--", "/" + long + "_" + long + "b", "1--"},
		{"one long piece", list(strings.Repeat("y", 100)), strings.Repeat("y", 80) + "--", "/" + strings.Repeat("y", 80), ""},
		{"only punctuation", list("::", "..."), "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, want := range []struct{ strategy, path, tag string }{
				{NameNone, "", id}, {NameTagPrefix, "", tc.prefix + id}, {"", "", tc.prefix + id}, {NameImageSuffix, tc.suffix, tc.tag + id},
			} {
				path, tag := namingOf(tc.env).ImageName(want.strategy, id)
				if path != want.path || tag != want.tag {
					t.Errorf("%q: %s:%s, want %s:%s", want.strategy, path, tag, want.path, want.tag)
				}
			}
		})
	}
}

// TestWords checks the names of kept images.
func TestWords(t *testing.T) {
	t.Parallel()
	for items, want := range map[string]string{
		"samtools=1.20": "samtools:1.20", "samtools=1.20 bwa=0.7.18": "samtools_bwa:1.20_0.7.18", "a=1 b=1": "a_b:1", "a=1 b": "a_b:latest", "r": "r:latest",
		"a=1 b=2 c=3 d=4 e=5 f=6": "a_b_c_d_pruned:1_2_3_4_pruned", "": "environment:latest",
	} {
		e := envfile.Environment{Requirements: all(strings.Fields(items))}
		if name, tag := namingOf(e).Words(); name+":"+tag != want {
			t.Errorf("%q is %s:%s instead of %s", items, name, tag, want)
		}
	}
	if name, tag := namingOf(envfile.Environment{Name: "My env"}).Words(); name+":"+tag != "myenv:latest" {
		t.Errorf("an environment with a name is %s:%s", name, tag)
	}
}

func FuzzNaming(f *testing.F) {
	f.Add("env", "a=1\nb\nc::d>2")
	f.Add("", "_a._b-\n--c\n1.0=..x")
	f.Fuzz(func(t *testing.T, name, items string) {
		e := envfile.Environment{Name: name, Requirements: all(strings.Split(items, "\n"))}
		name, tag := namingOf(e).Words()
		if full := "h.example/c/" + id + "/" + name + ":" + tag; reference.ReferenceRegexp.FindString(full) != full {
			t.Errorf("%s is not a valid image name", full)
		}
		for _, strategy := range []string{NameNone, NameTagPrefix, NameImageSuffix} {
			path, tag := namingOf(e).ImageName(strategy, id)
			if full := "h.example/repo" + path + ":" + tag; reference.ReferenceRegexp.FindString(full) != full || len(path) > maxPrefix+1 {
				t.Errorf("%s is not a valid image name", full)
			}
		}
	})
}
