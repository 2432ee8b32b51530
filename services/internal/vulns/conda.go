package vulns

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/services/conda/spec"
)

// condaTable lists names of Conda packages under which their software is known in other ecosystems: the
// package, the ecosystem, its name there, and the evidence that both are the same software. A package may have
// several rows; those of Bitnami have exact upstream versions and come first. Its first lines describe the other rows.
//
//go:embed conda.tsv
var condaTable string

// The values of the column for the ecosystem that are not ecosystems.
const (
	condaNone    = "none"
	condaUnknown = "unknown"
)

// An upstreamName is the name of a Conda package in another ecosystem, or the reason why it has no name there.
type upstreamName struct{ ecosystem, name string }

// condaNames returns the table by the names of Conda packages.
var condaNames = sync.OnceValue(func() map[string][]upstreamName { //nolint:gochecknoglobals // computed once, never changed
	out := map[string][]upstreamName{}
	for line := range strings.Lines(condaTable) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 && !strings.HasPrefix(line, "#") {
			out[f[0]] = append(out[f[0]], upstreamName{f[1], f[2]})
		}
	}
	return out
})

// condaTargets returns the targets of a Conda package. Packages of R have the lower-case names of CRAN and
// Bioconductor after a prefix; the others are in the table.
func condaTargets(name, version string) []target {
	names := condaNames()[name]
	if rest, ok := strings.CutPrefix(name, "r-"); ok {
		names = append(names[:len(names):len(names)], upstreamName{cran, rest})
	}
	if rest, ok := strings.CutPrefix(name, "bioconductor-"); ok {
		names = append(names[:len(names):len(names)], upstreamName{bioconductor, rest})
	}
	var out []target
	for _, n := range names {
		of, ok := ecosystemOf(n.ecosystem)
		if !ok {
			continue
		}
		t := target{ecosystem: of, name: of.normal(n.name), version: version, match: MatchUpstream, compare: compareUpstream}
		switch n.ecosystem {
		case debian, alpine:
			t.newest, t.upstream = true, upstreamOf(n.ecosystem)
		case pypi:
			t.compare = compareCandidate
		case cran, bioconductor:
			t.compare = of.compare
		}
		out = append(out, t)
	}
	return out
}

// isCondaMeta reports whether a Conda package has no software of its own.
func isCondaMeta(name string) bool {
	return slices.ContainsFunc(condaNames()[name], func(n upstreamName) bool { return n.ecosystem == condaNone })
}

// compareConda compares versions in the order of Conda. It reports false if one is not valid.
func compareConda(a, b string) (int, bool) {
	x, err := spec.ParseVersion(a)
	if err != nil {
		return 0, false
	}
	y, err := spec.ParseVersion(b)
	if err != nil {
		return 0, false
	}
	return x.Compare(y), true
}

// patchLetter matches versions with a letter for a patch, such as 1.1.1w of OpenSSL.
var patchLetter = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)*)([a-z])$`)

// compareUpstream compares upstream versions in the order of Conda, except that a single letter at the end is after
// the version without it: Conda has 1.1.1w before 1.1.1.
func compareUpstream(a, b string) (int, bool) {
	return compareConda(withoutLetter(a), withoutLetter(b))
}

func withoutLetter(version string) string {
	if m := patchLetter.FindStringSubmatch(version); m != nil {
		return m[1] + "." + strconv.Itoa(int(m[2][0]-'a')+1)
	}
	return version
}

var (
	// repacked matches what Debian adds to the upstream version of sources that it has changed.
	repacked = regexp.MustCompile(`[.+~](?:dfsg|ds|debian|repack)[0-9.]*.*$`)
	// firstRevision matches the revision of a package that Debian has not changed yet: a first one, or one that was
	// rebuilt for a release.
	firstRevision = regexp.MustCompile(`^(?:[01]|[01]~deb[0-9]+u1|0\+deb[0-9]+u1|1~bpo.*|1\+b[0-9]+)?$`)
)

// upstreamOf returns a function that returns the upstream version in the version of a distribution's package,
// and whether the package is its first one with this upstream version. If it is not, and a vulnerability is fixed in
// the package, a patch may have fixed it.
func upstreamOf(ecosystem string) func(version string) (string, bool) {
	if ecosystem == alpine {
		return func(version string) (string, bool) {
			part, revision, _ := strings.Cut(version, "-r")
			return strings.ReplaceAll(part, "_", ""), revision == "" || revision == "0"
		}
	}
	return func(version string) (string, bool) {
		v := splitDpkg(version)
		part := v.upstream
		if _, really, ok := strings.Cut(part, "+really"); ok {
			part = really
		}
		part = repacked.ReplaceAllString(part, "")
		return strings.ReplaceAll(part, "~", ""), firstRevision.MatchString(v.revision)
	}
}
