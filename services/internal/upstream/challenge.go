package upstream

import (
	"fmt"
	"strings"
)

// A challenge is one scheme of a WWW-Authenticate header (RFC 9110, 11.6.1).
type challenge struct {
	scheme string // lower case
	params map[string]string
}

// parseChallenges parses a header line. If a part of it is invalid, it returns an error and
// the challenges before that part.
func parseChallenges(header string) ([]challenge, error) {
	var out []challenge
	rest := strings.TrimLeft(header, " \t,")
	for rest != "" {
		word, after := token(rest)
		if word == "" {
			return out, fmt.Errorf("expected a word at %.20q", rest)
		}
		// A word before "=" is a parameter of the previous scheme. Other words are schemes.
		trimmed := strings.TrimLeft(after, " \t")
		if !strings.HasPrefix(trimmed, "=") || len(out) == 0 {
			out = append(out, challenge{scheme: strings.ToLower(word), params: map[string]string{}})
			rest = strings.TrimLeft(after, " \t,")
			continue
		}
		value, after, err := paramValue(strings.TrimLeft(trimmed[1:], " \t"))
		if err != nil {
			return out, err
		}
		out[len(out)-1].params[strings.ToLower(word)] = value
		rest = strings.TrimLeft(after, " \t,")
	}
	return out, nil
}

// token splits s after its leading token.
func token(s string) (word, rest string) {
	i := 0
	for i < len(s) && isTokenByte(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// paramValue splits s after its leading token or quoted string.
func paramValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		value, rest = token(s)
		return value, rest, nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return "", "", fmt.Errorf("a quoted value ends in a backslash")
			}
			b.WriteByte(s[i])
		case '"':
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", fmt.Errorf("a quoted value does not end")
}
