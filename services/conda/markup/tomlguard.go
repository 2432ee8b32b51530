package markup

import (
	"errors"
	"strings"

	"slipway.dev/services/internal/limits"
)

// CheckTOML rejects files that are expensive to parse, because of nesting or of the number of
// keys and items. It skips strings and comments as the parser does, up to the first syntax
// error.
func CheckTOML(text string) error {
	if err := CheckText(text); err != nil {
		return err
	}
	depth, parts, items := 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '#':
			i += lengthTo(text[i:], "\n") - 1
		case '"', '\'':
			i += tomlString(text[i:], c) - 1
		case '[', '{':
			depth++
			items++
			parts = 0
		case ']', '}':
			depth, parts = max(depth-1, 0), 0
		case '.':
			parts++
			items++
		case '=', ',', '\n':
			parts = 0
			items++
		}
		switch {
		case depth > limits.TOMLDepth, parts > limits.TOMLDepth:
			return errDepth
		case items > limits.TOMLItems:
			return errors.New("it has too many lines, keys and items")
		}
	}
	return nil
}

// tomlString returns the length of the string at the start of s, which begins with quote.
func tomlString(s string, quote byte) int {
	mark := string(quote)
	if long := strings.Repeat(mark, 3); strings.HasPrefix(s, long) {
		mark = long
	}
	for i := len(mark); i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case strings.HasPrefix(s[i:], mark):
			i += len(mark)
			for extra := 0; len(mark) > 1 && extra < 2 && i < len(s) && s[i] == quote; extra++ { // quotes at the end of the string
				i++
			}
			return i
		case s[i] == '\n' && len(mark) == 1: // not closed
			return i
		}
	}
	return len(s)
}

// lengthTo returns the length of s before mark, or of all of s without one.
func lengthTo(s, mark string) int {
	if at := strings.Index(s, mark); at >= 0 {
		return at
	}
	return len(s)
}
