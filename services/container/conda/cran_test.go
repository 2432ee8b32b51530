package conda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
)

const renvLock = `{"R": {"Version": "4.3.2", "Repositories": []}, "Packages": {
 "R6": {"Package": "R6", "Version": "2.5.1", "Source": "Repository", "Repository": "CRAN"},
 "lattice": {"Package": "lattice", "Version": "0.21-8", "Source": "Repository", "Repository": "CRAN"},
 "DESeq2": {"Package": "DESeq2", "Version": "1.42.0", "Source": "Bioconductor"},
 "stats": {"Package": "stats", "Version": "4.3.2", "Source": "Repository"}
}}`

// TestRPackages checks the Conda packages for R packages.
func TestRPackages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		entries []string
		renv    string
		want    []string
		refusal string
	}{
		{name: "CRAN", entries: []string{"dplyr", "data.table", "R.utils=2.12.3", "lattice==0.21-8", "R6@2.5.1"},
			want: []string{"r-dplyr", "r-data.table", "r-r.utils=2.12.3", "r-lattice=0.21_8", "r-r6=2.5.1", "r-base"}},
		{name: "Bioconductor", entries: []string{"bioc::DESeq2", "bioconductor::edgeR=4.0.1", "cran::rlang"}, want: []string{"bioconductor-deseq2", "bioconductor-edger=4.0.1", "r-rlang", "r-base"}},
		{name: "R", entries: []string{"R=4.3", "rlang"}, want: []string{"r-base=4.3", "r-rlang"}},
		{name: "a lock of renv", renv: renvLock, want: []string{"r-base=4.3", "bioconductor-deseq2=1.42.0", "r-r6=2.5.1", "r-lattice=0.21_8"}},
		{name: "a URL", entries: []string{"https://a.example/b.tar.gz"}, refusal: "packages.entries[0] must be an R package"},
		{name: "a repository", entries: []string{"dplyr", "r-lib/rlang"}, refusal: "packages.entries[1] must be an R package"},
		{name: "a specification of Conda", entries: []string{"dplyr>=1"}, refusal: "must be an R package"},
		{name: "no JSON", renv: "dependencies: [a]", refusal: "packages.environment must be an renv.lock"},
		{name: "no packages", renv: `{"R": {}}`, refusal: "an renv.lock with packages"},
		{name: "GitHub", renv: `{"Packages": {"a": {"Version": "1", "Source": "GitHub"}}}`, refusal: `a comes from "GitHub"`},
		{name: "a version", renv: `{"Packages": {"a": {"Version": ">1", "Source": "Repository"}}}`, refusal: `"a" is not a package`},
		{name: "a channel", renv: `{"Packages": {"bioc::a": {"Version": "1", "Source": "Repository"}}}`, refusal: `is not a package`},
	} {
		r, err := conda.Read(&containerv1.Packages{Type: "CRAN", Entries: slices.Clone(tc.entries)}, tc.renv, nil, conda.Defaults{})
		if tc.refusal != "" {
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.refusal)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		got, _ := r.Environment.Specs()
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) || r.Packages().GetType() != "CONDA" {
			t.Errorf("%s: %q of type %s, want %q", tc.name, got, r.Packages().GetType(), tc.want)
		}
	}
}

// FuzzRPackages checks that every accepted R package becomes one Conda specification with a
// name of R's.
func FuzzRPackages(f *testing.F) {
	f.Add("dplyr=1.1-4", renvLock)
	f.Add("bioc::DESeq2", `{"Packages": {"a": {"Version": "1", "Source": "Repository"}}}`)
	f.Fuzz(func(t *testing.T, entry, renv string) {
		for _, packages := range []*containerv1.Packages{{Type: "CRAN", Entries: []string{entry}}, {Type: "CRAN"}} {
			r, err := conda.Read(packages, renv[:len(renv)*(1-len(packages.GetEntries()))], nil, conda.Defaults{})
			if err != nil {
				continue
			}
			specs, pip := r.Environment.Specs()
			for _, spec := range specs {
				if !strings.HasPrefix(spec, "r-") && !strings.HasPrefix(spec, "bioconductor-") || strings.ContainsAny(spec, " :[*") {
					t.Errorf("%q, %q: %q", entry, renv, specs)
				}
			}
			if len(pip) > 0 {
				t.Errorf("%q, %q: %q", entry, renv, pip)
			}
		}
	})
}
