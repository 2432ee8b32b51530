package vulns

import (
	"cmp"
	"slices"
	"strings"
)

// An apkVersion is a parsed version of an Alpine package:
// NUMBER{.NUMBER}[LETTER]{_SUFFIX[NUMBER]}[~HASH][-rNUMBER].
type apkVersion struct {
	numbers  []string
	letter   string
	suffixes []apkSuffix
	hash     string
	// revision is "" in a version without one, which is before 0.
	revision string
}

type apkSuffix struct {
	// rank is negative for versions before the release.
	rank   int
	number string
}

// apkRanks returns the suffixes in their order; the release is between the first four and the others.
func apkRanks() []string {
	return []string{"alpha", "beta", "pre", "rc", "", "cvs", "svn", "git", "hg", "p"}
}

// compareAPK compares versions of Alpine packages as apk does. It reports false if one is not valid.
func compareAPK(a, b string) (int, bool) {
	x, valid := parseAPKVersion(a)
	y, also := parseAPKVersion(b)
	if !valid || !also {
		return 0, false
	}
	return x.compare(&y), true
}

func parseAPKVersion(s string) (apkVersion, bool) {
	var v apkVersion
	s = strings.TrimSpace(s)
	for {
		n := digits(s)
		if n == 0 {
			return v, false
		}
		v.numbers, s = append(v.numbers, s[:n]), s[n:]
		if !strings.HasPrefix(s, ".") {
			break
		}
		s = s[1:]
	}
	if s != "" && 'a' <= s[0] && s[0] <= 'z' {
		v.letter, s = s[:1], s[1:]
	}
	for strings.HasPrefix(s, "_") {
		s = s[1:]
		n := 0
		for n < len(s) && 'a' <= s[n] && s[n] <= 'z' {
			n++
		}
		rank := slices.Index(apkRanks(), s[:n])
		if rank < 0 || n == 0 {
			return v, false
		}
		s = s[n:]
		n = digits(s)
		v.suffixes, s = append(v.suffixes, apkSuffix{rank - slices.Index(apkRanks(), ""), s[:n]}), s[n:]
	}
	if strings.HasPrefix(s, "~") {
		n := 1
		for n < len(s) && (isDigit(s[n]) || 'a' <= s[n] && s[n] <= 'f') {
			n++
		}
		v.hash, s = s[1:n], s[n:]
	}
	if rest, ok := strings.CutPrefix(s, "-r"); ok && isNumber(rest) {
		v.revision, s = rest, ""
	}
	return v, s == ""
}

func (v *apkVersion) compare(w *apkVersion) int {
	for i := range min(len(v.numbers), len(w.numbers)) {
		if c := compareAPKNumbers(v.numbers[i], w.numbers[i], i == 0); c != 0 {
			return c
		}
	}
	if c := cmp.Or(cmp.Compare(len(v.numbers), len(w.numbers)), strings.Compare(v.letter, w.letter)); c != 0 {
		return c
	}
	for i := range max(len(v.suffixes), len(w.suffixes)) {
		var x, y apkSuffix
		if i < len(v.suffixes) {
			x = v.suffixes[i]
		}
		if i < len(w.suffixes) {
			y = w.suffixes[i]
		}
		if c := cmp.Or(cmp.Compare(x.rank, y.rank), compareNumbers(x.number, y.number)); c != 0 {
			return c
		}
	}
	return cmp.Or(strings.Compare(v.hash, w.hash), cmp.Compare(min(len(v.revision), 1), min(len(w.revision), 1)), compareNumbers(v.revision, w.revision))
}

// compareAPKNumbers compares numbers. After the first one, a leading zero makes a number a fraction.
func compareAPKNumbers(a, b string, first bool) int {
	if !first && (a[0] == '0' || b[0] == '0') {
		return strings.Compare(a, b)
	}
	return compareNumbers(a, b)
}
