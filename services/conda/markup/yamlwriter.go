package markup

import (
	"regexp"
	"strconv"
	"strings"
)

// A YAMLWriter writes YAML line by line. List items are in the column of their key.
type YAMLWriter struct{ strings.Builder }

// Line writes a line.
func (w *YAMLWriter) Line(indent int, text string) {
	_, _ = w.WriteString(strings.Repeat(" ", indent) + text + "\n")
}

// Member writes a string, unless it is empty.
func (w *YAMLWriter) Member(indent int, key, text string) {
	if text != "" {
		w.Line(indent, key+": "+Quote(text))
	}
}

// plain matches a string of characters that need no quotes, beginning with a letter. hexDigits
// matches one that some readers take for a number.
var (
	plain     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.\-+/:=<>*,|!~ ]*$`)
	hexDigits = regexp.MustCompile(`^[A-Fa-f0-9]*$`)
)

// Quote writes a string so that every YAML reader, 1.1 or 1.2, reads it as a string:
// unquoted where that is safe, as for URLs and most names.
func Quote(s string) string {
	if !isUnquoted(s) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

func isUnquoted(s string) bool {
	if !plain.MatchString(s) {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	last := s[len(s)-1]
	return last != ':' && last != ' ' && !strings.Contains(s, ": ") && !hexDigits.MatchString(s)
}

// List writes a list, which may be empty.
func (w *YAMLWriter) List(indent int, key string, n int) {
	if n == 0 {
		w.Line(indent, key+": []")
		return
	}
	w.Line(indent, key+":")
}

// Strings writes a list of strings; nothing if it is empty.
func (w *YAMLWriter) Strings(key string, list []string) {
	if len(list) == 0 {
		return
	}
	w.List(2, key, len(list))
	for _, s := range list {
		w.Line(2, "- "+Quote(s))
	}
}
