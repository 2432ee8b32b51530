package dockerfile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway.dev/services/internal/limits"
)

// huge replaces every length that is far too long, so that sums and products do not
// overflow.
const huge = 1 << 40

// lengths holds the maximum lengths of variables' values.
type lengths struct {
	known map[string]int
	// any is the maximum for variables whose names only the engine knows, since each of these
	// may be any variable.
	any int
}

func newLengths() lengths { return lengths{known: map[string]int{}} }

// of returns the maximum length of a variable. The base image or the engine may set it if
// the file does not.
func (l *lengths) of(name string) int {
	n, ok := l.known[name]
	if !ok {
		n = limits.DockerfileUnknown
	}
	return max(n, l.any)
}

// set records the length of a variable. It never shortens a variable, since only the engine may
// know which of two values applies. It returns by how much the total length of all variables
// has increased.
func (l *lengths) set(name string, n int, sure bool) (more int) {
	if !sure {
		l.any = max(l.any, n)
		return len(name) + n
	}
	was, there := l.known[name]
	l.known[name] = max(was, n)
	if !there {
		return len(name) + n
	}
	return max(n-was, 0)
}

// add merges the lengths of another stage.
func (l *lengths) add(other lengths) {
	l.any = max(l.any, other.any)
	for name, n := range other.known {
		l.set(name, n, true)
	}
}

// bound returns how long a text can be after expansion. It ignores quotes and counts both
// sides of `${NAME:-word}`, so that everything which may appear is included.
func (g *growth) bound(st *stage, text string) int {
	b := bounds{escape: g.escape, lengths: &st.lengths}
	return b.of(text, 0)
}

type bounds struct {
	escape  rune
	lengths *lengths
}

func (b bounds) of(text string, depth int) int {
	total, braces := 0, 0
	for text != "" && total < huge {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == b.escape:
			_, more := utf8.DecodeRuneInString(text[n:])
			n += more
			total += n
		case r == '}' && braces > 0:
			braces--
		case r == '$':
			var length int
			length, n = b.variable(text, depth)
			total += max(length, n) // it is unchanged in single quotes
			if strings.HasPrefix(text, "${") && !strings.HasSuffix(text[:n], "}") {
				braces++
			}
		default:
			total += n
		}
		if text = text[n:]; braces > limits.DockerfileDepth {
			return huge
		}
	}
	return min(total, huge)
}

// variable parses `$NAME`, or the beginning of `${NAME`, and returns its maximum length,
// and its length in the text.
func (b bounds) variable(text string, depth int) (length, n int) {
	n = 1
	if strings.HasPrefix(text, "${") {
		n = 2
	}
	braced := n == 2
	name := nameOf(text[n:])
	n += len(name)
	if name == "" {
		return n, n
	}
	length = b.lengths.of(name)
	if !braced {
		return length, n
	}
	rest := text[n:]
	switch {
	case strings.HasPrefix(rest, "}"):
		return length, n + 1
	case rest != "" && strings.IndexByte("/%#", rest[0]) >= 0:
		if depth >= limits.DockerfileDepth {
			return huge, len(text)
		}
		// Each character may be replaced, and the replacement may contain the replaced text.
		// Matching a pattern against each character takes time, even if nothing is shortened.
		end := n + regionEnd(rest, b.escape)
		return min((length+1)*(b.of(text[n:end], depth+1)+1), huge), end
	}
	return length, n
}

// regionEnd returns an upper bound for the end of a form in braces. If the form contains quotes
// or further forms, that is the end of the text.
func regionEnd(s string, escape rune) int {
	if at := plainEnd(s, escape); at > 0 {
		return at
	}
	return len(s)
}

// plainEnd returns the length of a form up to its closing brace, if no quote or form in
// braces comes first; otherwise 0. Escaped characters are skipped.
func plainEnd(s string, escape rune) int {
	skip := false
	for i, r := range s {
		switch {
		case skip:
			skip = false
		case r == escape:
			skip = true
		case r == '}':
			return i + 1
		case r == '"' || r == '\'' || r == '{':
			return 0
		}
	}
	return 0
}

// nameOf returns the variable name that s begins with, as BuildKit's shell.Lex parses it.
func nameOf(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case s == "":
		return ""
	case unicode.IsDigit(r):
		return s[:len(s)-len(strings.TrimLeftFunc(s, unicode.IsDigit))]
	case strings.ContainsRune("@*#?-$!0", r):
		return s[:n]
	}
	return s[:len(s)-len(strings.TrimLeftFunc(s, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_'
	}))]
}
