package vulns

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCondaTable checks the form of the table, and that it has each of the packages on which most others depend.
// testdata/depended.tsv has the 300 of them with the numbers of packages that depend on them, in the package lists of
// conda-forge and Bioconda that the tests of this repository use; services/tools/depended.py counts them.
func TestCondaTable(t *testing.T) {
	t.Parallel()
	evidence := regexp.MustCompile(`^(parselmouth|https://github\.com/conda-forge/[a-z0-9.-]+-feedstock \(https?://\S+\) and https?://\S+)$`)
	reason, kinds := regexp.MustCompile(`^[A-Z0-9].{10,160}[^.]$`), map[string]string{}
	last := ""
	for line := range strings.Lines(condaTable) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(f) != 4 || f[0] < last:
			t.Errorf("%q is not valid, or not sorted", line)
			continue
		case f[1] == condaNone || f[1] == condaUnknown:
			if f[2] != "-" || f[0] == last || !reason.MatchString(f[3]) || len(condaTargets(f[0], "1")) > 0 {
				t.Errorf("%q must be the only row of the package, with the name - and a reason", line)
			}
		case !slices.Contains(Ecosystems(), f[1]) || f[2] == "" || !evidence.MatchString(f[3]) || f[1] == pypi && f[2] != pythonName(f[2]) || kinds[f[0]] == condaNone || kinds[f[0]] == condaUnknown:
			t.Errorf("%q is not valid", line)
		}
		last, kinds[f[0]] = f[0], f[1]
	}
	raw, err := os.ReadFile("testdata/depended.tsv")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		name, _, _ := strings.Cut(line, "\t")
		kind := kinds[name]
		switch {
		case len(condaTargets(name, "1")) > 0:
			kind = "mapped"
		case kind == "":
			t.Errorf("conda.tsv has no row for %s", name)
		}
		counts[kind]++
	}
	if want := map[string]int{"mapped": 233, condaNone: 12, condaUnknown: 55}; !maps.Equal(counts, want) {
		t.Errorf("of the packages on which most others depend there are %v, want %v", counts, want)
	}
}

// TestUpstreamOf checks the upstream parts of versions of distributions.
func TestUpstreamOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]struct {
		part    string
		isFirst bool
	}{
		"3.0.12-1": {"3.0.12", true}, "3.0.11-1~deb12u1": {"3.0.11", true}, "3.0.11-1~deb12u2": {"3.0.11", false}, "1:1.2.13.dfsg-1": {"1.2.13", true}, "3.0.13-2": {"3.0.13", false}, "1.2.13-1+deb12u1": {"1.2.13", false},
		"1.1.1w-0+deb11u1": {"1.1.1w", true}, "2:1.5+really1.4.2-1": {"1.4.2", true}, "1.0~rc1-1": {"1.0rc1", true}, "0": {"0", true}, "5.36.0+dfsg1-7+deb12u1": {"5.36.0", false}, "8.5.0-2+deb11u1": {"8.5.0", false},
	} {
		if part, isFirst := upstreamOf(debian)(version); part != want.part || isFirst != want.isFirst {
			t.Errorf("%s: %s, %v", version, part, isFirst)
		}
	}
	for version, want := range map[string]string{"1.2.12-r2": "1.2.12 false", "9.3_p2-r0": "9.3p2 true", "1.0_rc1": "1.0rc1 true"} {
		part, isFirst := upstreamOf(alpine)(version)
		if got := part + map[bool]string{true: " true", false: " false"}[isFirst]; got != want {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestCompareUpstream checks letters at the end of versions.
func TestCompareUpstream(t *testing.T) {
	t.Parallel()
	list := []string{"1.1.1pre9", "1.1.1rc1", "1.1.1", "1.1.1a", "1.1.1w", "1.1.1x", "1.1.2", "3.0.0"}
	for i, a := range list {
		for j, b := range list {
			if got, ok := compareUpstream(a, b); !ok || sign(got) != sign(i-j) {
				t.Errorf("%s and %s: %d, %v", a, b, got, ok)
			}
		}
	}
}
