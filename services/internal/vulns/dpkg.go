package vulns

import (
	"cmp"
	"strings"
)

// compareDpkg compares versions of Debian packages as dpkg does (deb-version(7)).
func compareDpkg(a, b string) (int, bool) {
	x, y := splitDpkg(a), splitDpkg(b)
	return cmp.Or(compareNumbers(x.epoch, y.epoch), compareDpkgPart(x.upstream, y.upstream), compareDpkgPart(x.revision, y.revision)), true
}

// A dpkgVersion has the parts of a version of a Debian package.
type dpkgVersion struct{ epoch, upstream, revision string }

func splitDpkg(v string) dpkgVersion {
	var out dpkgVersion
	v = strings.TrimSpace(v)
	if epoch, rest, ok := strings.Cut(v, ":"); ok && isNumber(epoch) {
		out.epoch, v = epoch, rest
	}
	if i := strings.LastIndexByte(v, '-'); i >= 0 {
		out.revision, v = v[i+1:], v[:i]
	}
	out.upstream = v
	return out
}

// compareDpkgPart compares parts without a number and numbers in turn.
func compareDpkgPart(a, b string) int {
	for a != "" || b != "" {
		i, j := digitAt(a), digitAt(b)
		if c := compareDpkgText(a[:i], b[:j]); c != 0 {
			return c
		}
		a, b = a[i:], b[j:]
		i, j = digits(a), digits(b)
		if c := compareNumbers(a[:i], b[:j]); c != 0 {
			return c
		}
		a, b = a[i:], b[j:]
	}
	return 0
}

// compareDpkgText compares texts: "~" is before the end, and letters are before other characters.
func compareDpkgText(a, b string) int {
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(dpkgRank(a, i), dpkgRank(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

func dpkgRank(s string, i int) int {
	switch {
	case i >= len(s):
		return 0
	case s[i] == '~':
		return -1
	case isLetter(s[i]):
		return int(s[i])
	}
	return int(s[i]) + 256
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// digits returns the number of leading digits.
func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// digitAt returns the index of the first digit, or the length.
func digitAt(s string) int {
	n := 0
	for n < len(s) && !isDigit(s[n]) {
		n++
	}
	return n
}

// isNumber reports whether s consists of digits.
func isNumber(s string) bool { return s != "" && digits(s) == len(s) }

// compareNumbers compares numbers of any length. "" is 0.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
