package conda

import (
	"strconv"
	"strings"
)

// A yamlWriter writes YAML line by line. List items are in the column of their key.
type yamlWriter struct{ strings.Builder }

func (w *yamlWriter) line(indent int, text string) {
	_, _ = w.WriteString(strings.Repeat(" ", indent) + text + "\n")
}

// member writes a string, unless it is empty.
func (w *yamlWriter) member(indent int, key, text string) {
	if text != "" {
		w.line(indent, key+": "+quote(text))
	}
}

// isPlainLetter reports whether c needs no quotes within a string that begins with a letter
// and does not contain ": ".
func isPlainLetter(c byte) bool { return isNameLetter(c) || strings.IndexByte("+/:=<>*,|!~ ", c) >= 0 }

// quote writes a string so that every YAML reader, 1.1 or 1.2, reads it as a string:
// unquoted where that is safe, as for URLs and most names.
func quote(s string) string {
	if s == "" || leading(s, isPlainLetter) < len(s) || !isPlainYAML(s) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

func isPlainYAML(s string) bool {
	if !isLower(s[0]|0x20) && s[0] != '_' {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	last := s[len(s)-1]
	return last != ':' && last != ' ' && !strings.Contains(s, ": ") && !isHex(s)
}

// list writes a list, which may be empty.
func (w *yamlWriter) list(indent int, key string, n int) {
	if n == 0 {
		w.line(indent, key+": []")
		return
	}
	w.line(indent, key+":")
}
