package conda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

const mirror = "https://cran.example.org"

// fromCRAN returns the recipe of R packages with cranFallback "source".
func fromCRAN(t *testing.T, renv string, entries ...string) Recipe {
	t.Helper()
	r, err := Read(&containerv1.Packages{Type: TypeCRAN, CranFallback: FallbackSource, Entries: entries}, renv, nil, Defaults{CRANMirror: mirror})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFromSource checks which R packages are built from source, and what the solver and the
// build step get.
func TestFromSource(t *testing.T) {
	t.Parallel()
	const renv = `{"R": {"Version": "4.3.2"}, "Packages": {
 "lattice": {"Version": "0.21-8", "Source": "Repository"}, "R6": {"Version": "2.5.1", "Source": "Repository"},
 "DESeq2": {"Version": "1.42.0", "Source": "Bioconductor"}}}`
	entries := []string{"dplyr", "R.utils=2.12.3", "bioc::DESeq2", "R=4.3"}
	tools := []string{"c-compiler", "cxx-compiler", "fortran-compiler", "make", "pkg-config"}
	for _, tc := range []struct {
		name             string
		renv             string
		absent, involved []string
		specs            []string // that remain; nil if nothing changes
		file             string
	}{
		{"no Conda package", "", []string{"r-dplyr"}, []string{"r-dplyr"}, []string{"r-r.utils=2.12.3", "bioconductor-deseq2", "r-base=4.3"}, "dplyr\t\n"},
		{"two of them", "", []string{"r-r.utils", "r-dplyr"}, nil, []string{"bioconductor-deseq2", "r-base=4.3"}, "R.utils\t2.12.3\ndplyr\t\n"},
		{"a version that does not fit the others", "", nil, []string{"r-base", "r-dplyr", "r-r.utils"}, []string{"r-dplyr", "bioconductor-deseq2", "r-base=4.3"}, "R.utils\t2.12.3\n"},
		{"a lock", renv, nil, []string{"r-base", "r-lattice", "r-r6"}, []string{"r-base=4.3", "bioconductor-deseq2=1.42.0", "r-r6=2.5.1"}, "lattice\t0.21-8\n"},
		{"a package of Bioconductor", "", []string{"bioconductor-deseq2"}, []string{"bioconductor-deseq2"}, nil, ""},
		{"R", "", []string{"r-base"}, []string{"r-base"}, nil, ""},
		{"any version does not fit", "", nil, []string{"r-base", "r-dplyr"}, nil, ""},
		{"a package that was not requested", "", []string{"c-compiler"}, nil, nil, ""},
	} {
		r := fromCRAN(t, tc.renv, entries...)
		out, ok, err := r.FromSource(tc.absent, tc.involved)
		if err != nil || ok != (tc.specs != nil) {
			t.Errorf("%s: %t, %v", tc.name, ok, err)
		}
		if !ok {
			continue
		}
		got, _ := out.Environment.Specs()
		want := slices.Concat(tc.specs, tools, []string{"conda-forge::procps-ng"})
		if !slices.Equal(got, tc.specs) || !slices.Equal(out.Packages().GetEntries(), want) || !strings.Contains(out.Steps(), "packages.cranFallback") {
			t.Errorf("%s: %q, solved is %q, the steps are for %q", tc.name, got, out.Packages().GetEntries(), out.Steps())
		}
		files := out.StepFiles()
		if len(files) != 1 || files[0].GetPath() != ".slipway/cran" || string(files[0].GetContent()) != mirror+"\n"+tc.file {
			t.Errorf("%s: the files are %v", tc.name, files)
		}
		if before, _ := r.Environment.Specs(); len(before) == len(got) || r.StepFiles() != nil {
			t.Errorf("%s: the recipe itself is changed", tc.name)
		}
		if _, again, err := out.FromSource(tc.absent, nil); again || err != nil {
			t.Errorf("%s: the same packages are built from source twice: %v", tc.name, err)
		}
	}
}

// TestFromSourceIsBounded checks the maximum number of packages that are built from source.
func TestFromSourceIsBounded(t *testing.T) {
	t.Parallel()
	var entries, absent []string
	for i := range limits.CranSources + 1 {
		entries, absent = append(entries, fmt.Sprintf("a%d", i)), append(absent, fmt.Sprintf("r-a%d", i))
	}
	r := fromCRAN(t, "", entries...)
	if _, ok, err := r.FromSource(absent[1:], nil); err != nil || !ok {
		t.Errorf("%d packages: %v", limits.CranSources, err)
	}
	if _, _, err := r.FromSource(absent, nil); !errors.Is(err, fault.Invalid) {
		t.Errorf("%d packages: %v", limits.CranSources+1, err)
	}
}

// TestNoMirror checks that a server without a CRAN mirror rejects cranFallback, and that the
// message names the setting.
func TestNoMirror(t *testing.T) {
	t.Parallel()
	p := &containerv1.Packages{Type: TypeCRAN, CranFallback: FallbackSource, Entries: []string{"dplyr"}}
	if _, err := Read(p, "", nil, Defaults{}); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "cran_mirror") {
		t.Errorf("without a mirror: %v", err)
	}
	p.Entries = []string{"dplyr=1.0.0", "dplyr=1.1.0"}
	if _, err := Read(p, "", nil, Defaults{CRANMirror: mirror}); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "dplyr is requested twice") {
		t.Errorf("two versions: %v", err)
	}
	p.CranFallback, p.Entries = "", []string{"dplyr"}
	if r, err := Read(p, "", nil, Defaults{CRANMirror: mirror}); err != nil || r.HasFallback() {
		t.Errorf("without cranFallback: %t, %v", r.HasFallback(), err)
	}
}
