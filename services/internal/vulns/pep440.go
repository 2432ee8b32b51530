package vulns

import (
	"cmp"
	"regexp"
	"strings"
)

// pep440 matches versions of Python packages (PEP 440, appendix B).
var pep440 = regexp.MustCompile(`^v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?([0-9]*))?(?:(?:-([0-9]+))|(?:[-_.]?(post|rev|r)[-_.]?([0-9]*)))?(?:[-_.]?(dev)[-_.]?([0-9]*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$`)

// A pyVersion is a version of a Python package. The numbers are in digits.
type pyVersion struct {
	epoch   string
	release []string
	// pre is "a", "b", "rc"; "" for a release, and "~" for a development version of one, which is before its
	// alpha versions.
	pre, preNumber string
	// isPost reports whether there is post, and isDev whether there is dev.
	isPost    bool
	post      string
	isDev     bool
	dev       string
	local     []string
	withLocal bool
}

// comparePEP440 compares versions of Python packages. It reports false if one is not valid.
func comparePEP440(a, b string) (int, bool) {
	x, valid := parsePEP440(a)
	y, also := parsePEP440(b)
	if !valid || !also {
		return 0, false
	}
	return x.compare(&y), true
}

func parsePEP440(s string) (pyVersion, bool) {
	m := pep440.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil {
		return pyVersion{}, false
	}
	v := pyVersion{
		epoch: m[1], release: strings.Split(m[2], "."), preNumber: m[4], isPost: m[5] != "" || m[6] != "", post: m[5] + m[7],
		isDev: m[8] != "", dev: m[9], withLocal: m[10] != "",
	}
	switch m[3] {
	case "alpha", "a":
		v.pre = "a"
	case "beta", "b":
		v.pre = "b"
	case "preview", "pre", "c", "rc":
		v.pre = "rc"
	}
	if v.withLocal {
		v.local = strings.FieldsFunc(m[10], func(r rune) bool { return strings.ContainsRune("-_.", r) })
	}
	return v, true
}

func (v *pyVersion) compare(w *pyVersion) int {
	if c := compareNumbers(v.epoch, w.epoch); c != 0 {
		return c
	}
	if c := compareLists(v.release, w.release, compareNumbers); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(v.stage(), w.stage()), compareNumbers(v.preNumber, w.preNumber),
		compareOptional(v.isPost, w.isPost, v.post, w.post),
		// A version that is not in development is after all that are.
		-compareFlags(v.isDev, w.isDev), compareNumbers(v.dev, w.dev),
		v.compareLocal(w),
	)
}

// stage orders a development version, alpha, beta, candidates, and the release.
func (v *pyVersion) stage() int {
	switch {
	case v.pre == "a":
		return 1
	case v.pre == "b":
		return 2
	case v.pre == "rc":
		return 3
	case v.isDev && !v.isPost:
		return 0
	}
	return 4
}

func (v *pyVersion) compareLocal(w *pyVersion) int {
	for i := range min(len(v.local), len(w.local)) {
		a, b := v.local[i], w.local[i]
		c := compareFlags(isNumber(a), isNumber(b)) // numbers are after words
		switch {
		case c != 0:
		case isNumber(a):
			c = compareNumbers(a, b)
		default:
			c = strings.Compare(a, b)
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(v.local), len(w.local))
}

// compareOptional compares numbers that may be missing; a missing one is before all others.
func compareOptional(has, also bool, a, b string) int {
	return cmp.Or(compareFlags(has, also), compareNumbers(a, b))
}

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// compareLists compares lists; missing members are "".
func compareLists(a, b []string, compare func(a, b string) int) int {
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}
