package output

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// control matches terminal control sequences.
var control = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
})

// PlainText returns a line of a log without terminal control sequences.
func PlainText(s string) string {
	s = control().ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Printable removes terminal control sequences and replaces invisible characters.
func Printable(s string) string {
	s = control().ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// PrintableLines returns a text of several lines with visible characters only.
func PrintableLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = Printable(l)
	}
	return strings.Join(lines, "\n")
}

// Clip shortens a text to about 200 bytes, for use in a larger one.
func Clip(s string) string {
	end := 200
	if len(s) <= end {
		return s
	}
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
