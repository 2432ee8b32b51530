package dockerfile

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway.dev/services/internal/limits"
)

// huge stands for every length that is far too long: sums and products of it do not
// overflow.
const huge = 1 << 40

// lengths are the greatest lengths of variables' values.
type lengths struct {
	known map[string]int
	// any is that of a variable whose name only the engine knows: it may be each.
	any int
}

func newLengths() lengths { return lengths{known: map[string]int{}} }

// of is that of a variable, which the base image or the engine may have set where the
// file does not.
func (l *lengths) of(name string) int {
	n, ok := l.known[name]
	if !ok {
		n = limits.DockerfileUnknown
	}
	return max(n, l.any)
}

// set never makes one shorter: which of two values stays may be decided by the
// engine alone. It returns by how much all are longer now.
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

// add takes over what another stage knows.
func (l *lengths) add(other lengths) {
	l.any = max(l.any, other.any)
	for name, n := range other.known {
		l.set(name, n, true)
	}
}

// bound is how long a text can be once variables are put in. It follows no quotes and
// takes no side in what `${NAME:-word}` yields: everything that may appear is counted.
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
			total += max(length, n) // it stays as it is in single quotes
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

// variable reads `$NAME`, or what begins with `${NAME`, and returns how long that may
// become, and how much of the text it is.
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
		// Each character may be replaced, and the replacement may hold what it replaces.
		// A pattern is held against each character: it costs time where it gains none.
		end := n + regionEnd(rest, b.escape)
		return min((length+1)*(b.of(text[n:end], depth+1)+1), huge), end
	}
	return length, n
}

// regionEnd is where a form in braces ends at the latest: with quotes or further forms
// inside, that is taken to be the end of the text.
func regionEnd(s string, escape rune) int {
	if at := plainEnd(s, escape); at > 0 {
		return at
	}
	return len(s)
}

// plainEnd is the length of a form up to its closing brace, where no quote and no
// form in braces stands before; 0 otherwise. An escaped character is passed over.
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

// nameOf is the name of a variable that s begins with, as BuildKit's shell.Lex
// reads it.
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
