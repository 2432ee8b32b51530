package spec

import (
	"cmp"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Version is a package's version in Conda's order (CEP 33). It is immutable; the zero
// value is version 0 without a text.
type Version struct {
	text string
	// epoch is in digits without leading zeros; "" is 0.
	epoch          string
	release, local []segment
}

// A segment is the part between two dots: alternating numbers and words.
type segment []atom

type atom struct {
	kind atomKind
	// text is lower case. A number has no leading zeros, so that its size is not limited; 0
	// is "".
	text string
}

// An atomKind is in Conda's order: 1.0dev < 1.0a < 1.0 < 1.0post.
type atomKind uint8

const (
	dev atomKind = iota
	word
	number
	post
)

// zero returns the number 0, which replaces a missing atom.
func zero() atom { return atom{kind: number} }

// ParseVersion parses a version as channels write it: an optional epoch and `!`, segments
// separated by `.`, `_` or `-`, and optionally `+` with local segments. It returns
// fault.Invalid for malformed versions.
func ParseVersion(text string) (Version, error) {
	if len(text) > limits.CondaVersion {
		return Version{}, fault.Invalid.Newf("A version may have %d characters, not %d", limits.CondaVersion, len(text))
	}
	v := Version{text: strings.TrimSpace(text)}
	rest := strings.ToLower(v.text)
	if epoch, after, ok := strings.Cut(rest, "!"); ok {
		if epoch == "" || leading(epoch, isDigit) != len(epoch) {
			return Version{}, badVersion(text, "the part before ! must be a number")
		}
		v.epoch, rest = strings.TrimLeft(epoch, "0"), after
	}
	release, local, hasLocal := strings.Cut(rest, "+")
	var ok bool
	if v.release, ok = parseSegments(release); !ok {
		return Version{}, badVersion(text, "it must be letters and digits, with single dots, _ or - between")
	}
	if hasLocal {
		if v.local, ok = parseSegments(local); !ok {
			return Version{}, badVersion(text, "the part after + must be letters and digits, with dots between")
		}
	}
	return v, nil
}

func badVersion(text, why string) error {
	return fault.Invalid.Newf("%q is not a Conda version: %s", fault.Quote(text), why)
}

// parseSegments splits at dots, dashes and underscores. An underscore at the very end
// belongs to the last segment, as in OpenSSL's versions (1.0.1_).
func parseSegments(s string) ([]segment, bool) {
	body := strings.TrimSuffix(s, "_")
	if body == "" {
		return nil, false
	}
	segments := make([]segment, 0, 1+strings.Count(body, ".")+strings.Count(body, "_")+strings.Count(body, "-"))
	// A segment of n characters has at most n+1 atoms, so append never reallocates.
	atoms := make([]atom, 0, len(s)+1)
	for body != "" {
		n := leading(body, func(c byte) bool { return !isSeparator(c) })
		from := len(atoms)
		var ok bool
		if atoms, ok = appendAtoms(atoms, body[:n]); !ok {
			return nil, false
		}
		segments = append(segments, atoms[from:])
		if n == len(body) {
			break
		}
		if body = body[n+1:]; body == "" {
			return nil, false
		}
	}
	last := len(segments) - 1
	if strings.HasSuffix(s, "_") {
		segments[last] = append(segments[last], atom{kind: word, text: "_"})
	}
	return segments, true
}

// appendAtoms splits a segment between digits and letters. A segment that begins with a
// letter gets a leading 0.
func appendAtoms(atoms []atom, s string) ([]atom, bool) {
	if s == "" {
		return nil, false
	}
	if !isDigit(s[0]) {
		atoms = append(atoms, zero())
	}
	for s != "" {
		if n := leading(s, isDigit); n > 0 {
			atoms = append(atoms, atom{kind: number, text: strings.TrimLeft(s[:n], "0")})
			s = s[n:]
			continue
		}
		a, n := cutWord(s)
		if n == 0 {
			return nil, false
		}
		atoms = append(atoms, a)
		s = s[n:]
	}
	return atoms, true
}

// cutWord cuts a word. Only the complete words dev and post have a special order: deva is
// an ordinary word.
func cutWord(s string) (a atom, length int) {
	n := leading(s, isLower)
	switch s[:n] {
	case "dev":
		return atom{kind: dev}, n
	case "post":
		return atom{kind: post}, n
	}
	return atom{kind: word, text: s[:n]}, n
}

// leading returns the number of leading bytes for which is returns true.
func leading(s string, is func(byte) bool) int {
	for i := range len(s) {
		if !is(s[i]) {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool     { return '0' <= c && c <= '9' }
func isLower(c byte) bool     { return 'a' <= c && c <= 'z' }
func isSeparator(c byte) bool { return c == '.' || c == '_' || c == '-' }

// String returns the version as written.
func (v Version) String() string { return v.text }

// Compare returns -1, 0 or 1 if v is older than, equal to, or newer than w. Versions with
// different texts may be equal, e.g. 1.0 and 1.0.0.
func (v Version) Compare(w Version) int {
	if c := compareDigits(v.epoch, w.epoch); c != 0 {
		return c
	}
	if c := compareSegments(v.release, w.release); c != 0 {
		return c
	}
	return compareSegments(v.local, w.local)
}

// StartsWith reports whether v begins with prefix: all segments of prefix except the last
// equal those of v, and v's segment at the position of the last one begins with its numbers
// and words. So 1.1.2, 1.1a and 1.1rc1 start with 1.1, and 1.10 does not. Missing segments
// count as 0. The rule follows conda's VersionOrder.startswith.
func (v Version) StartsWith(prefix Version) bool {
	if v.epoch != prefix.epoch {
		return false
	}
	if prefix.local == nil {
		return segmentsStartWith(v.release, prefix.release)
	}
	return compareSegments(v.release, prefix.release) == 0 && segmentsStartWith(v.local, prefix.local)
}

func segmentsStartWith(s, prefix []segment) bool {
	last := len(prefix) - 1
	for i := range max(last, 0) {
		if compareSegment(at(s, i), prefix[i]) != 0 {
			return false
		}
	}
	return last < 0 || compareSegment(first(at(s, last), len(prefix[last])), prefix[last]) == 0
}

// first returns the first n atoms of a segment.
func first(s segment, n int) segment { return s[:min(n, len(s))] }

func compareSegments(a, b []segment) int {
	for i := range max(len(a), len(b)) {
		if c := compareSegment(at(a, i), at(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

func compareSegment(a, b segment) int {
	for i := range max(len(a), len(b)) {
		x, y := zero(), zero()
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := compareAtom(x, y); c != 0 {
			return c
		}
	}
	return 0
}

func compareAtom(a, b atom) int {
	switch {
	case a.kind != b.kind:
		return cmp.Compare(a.kind, b.kind)
	case a.kind == number:
		return compareDigits(a.text, b.text)
	}
	return strings.Compare(a.text, b.text)
}

// compareDigits compares numbers of any size, written without leading zeros.
func compareDigits(a, b string) int {
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// at returns the segment at an index; missing segments are 0.
func at(s []segment, i int) segment {
	if i < len(s) {
		return s[i]
	}
	return nil
}
