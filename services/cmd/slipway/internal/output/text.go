package output

import (
	"regexp"
	"strings"
	"unicode"
)

// control is a sequence that colours text or steers a terminal.
var control = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// PlainText is a line of a log without what colours it or steers a terminal.
func PlainText(s string) string {
	s = control.ReplaceAllString(s, "")
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Printable leaves out what colours text, and replaces what is not a visible character.
func Printable(s string) string {
	s = control.ReplaceAllString(s, "")
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

// PrintableLines is a text of several lines, of visible characters alone.
func PrintableLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = Printable(l)
	}
	return strings.Join(lines, "\n")
}

// Clip cuts what is too long to be shown with other things.
func Clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
