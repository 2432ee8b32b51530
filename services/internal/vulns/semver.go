package vulns

import (
	"cmp"
	"strings"
)

// compareSemver compares semantic versions, with any number of components and an optional "v". It reports false
// if one is not valid.
func compareSemver(a, b string) (int, bool) {
	x, valid := parseSemver(a)
	y, also := parseSemver(b)
	if !valid || !also {
		return 0, false
	}
	c := compareLists(x.numbers, y.numbers, compareNumbers)
	if c == 0 {
		c = comparePrerelease(x.pre, y.pre)
	}
	return c, true
}

type semver struct {
	numbers []string
	// pre is "" for a release.
	pre string
}

func parseSemver(s string) (semver, bool) {
	s = strings.TrimSpace(s)
	s = strings.TrimPrefix(s, "v")
	s, _, _ = strings.Cut(s, "+")
	i := 0
	for i < len(s) && (isDigit(s[i]) || s[i] == '.') {
		i++
	}
	v := semver{numbers: strings.Split(strings.TrimSuffix(s[:i], "."), "."), pre: strings.TrimPrefix(s[i:], "-")}
	for _, n := range v.numbers {
		if !isNumber(n) {
			return v, false
		}
	}
	return v, true
}

// comparePrerelease compares versions before a release, as in item 11 of semver.org.
func comparePrerelease(a, b string) int {
	if a == "" || b == "" {
		return compareFlags(a == "", b == "")
	}
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		c := -compareFlags(isNumber(x[i]), isNumber(y[i])) // numbers are before words
		switch {
		case c != 0:
		case isNumber(x[i]):
			c = compareNumbers(x[i], y[i])
		default:
			c = strings.Compare(x[i], y[i])
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

// compareR compares versions of R packages: numbers, separated by "." or "-". Conda writes "_" instead of "-". It
// reports false if one is not valid.
func compareR(a, b string) (int, bool) {
	x, valid := splitR(a)
	y, also := splitR(b)
	if !valid || !also {
		return 0, false
	}
	for i := range min(len(x), len(y)) {
		if c := compareNumbers(x[i], y[i]); c != 0 {
			return c, true
		}
	}
	return cmp.Compare(len(x), len(y)), true // 1.0 is before 1.0.0
}

func splitR(s string) ([]string, bool) {
	parts := strings.FieldsFunc(strings.TrimSpace(s), func(r rune) bool { return strings.ContainsRune(".-_", r) })
	for _, p := range parts {
		if !isNumber(p) {
			return nil, false
		}
	}
	return parts, len(parts) > 0
}
