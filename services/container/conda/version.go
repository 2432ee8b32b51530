package conda

import "strings"

func isVersionLetter(c byte) bool { return strings.IndexByte(versionLetters, c) >= 0 }

// versionLetters are those of a version: epoch `!`, local part `+`, and `*`.
const versionLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+!*-"

func isBuild(s string) bool { return strings.Trim(s, versionLetters) == "" }

// isVersion reads constraints with `,` and `|` between, in parentheses or not.
func isVersion(s string) bool {
	depth := 0
	wants := true // a constraint
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		switch c := s[0]; {
		case wants && c == '(':
			depth++
			s = s[1:]
		case !wants && c == ')':
			depth--
			s = s[1:]
		case !wants && (c == ',' || c == '|'):
			wants = true
			s = s[1:]
		case wants:
			n := constraintLength(s)
			if n == 0 {
				return false
			}
			wants = false
			s = s[n:]
		default:
			return false
		}
		if depth < 0 || depth > 20 {
			return false
		}
	}
	return depth == 0 && !wants
}

// constraintLength is that of an operator and a version, 0 where there is none.
func constraintLength(s string) int {
	rest := s
	for _, op := range []string{"===", "==", "!=", "<=", ">=", "~=", "<", ">", "="} {
		if after, ok := strings.CutPrefix(rest, op); ok {
			rest = strings.TrimLeft(after, " ")
			break
		}
	}
	n := len(rest) - len(strings.TrimLeft(rest, versionLetters))
	if n == 0 {
		return 0
	}
	return len(s) - len(rest) + n
}
