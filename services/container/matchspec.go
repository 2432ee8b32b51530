package container

import (
	"strings"

	"slipway.dev/services/internal/fault"
)

// matchSpec is a Conda package specification in one of its forms:
// `name`, `name=1.20`, `name >=1.2,<2`, `name=1.20=build`, `name 1.20 build`, with
// `channel::` before and `[key=value, …]` behind.
type matchSpec struct {
	channel, name, version, build string
	// options is what stands between the brackets.
	options string
}

// wordLetters are those that mean themselves wherever they stand.
const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// maxSpec is how long a specification may be, in characters.
const maxSpec = 500

// parseMatchSpec is stricter than Conda: what it lets through is one specification
// of one named package, and nothing that a tool could take for a path, a URL or
// an option. fault.Invalid otherwise, without the field.
func parseMatchSpec(s string) (matchSpec, error) {
	bad := func(why string) (matchSpec, error) {
		return matchSpec{}, fault.Invalid.Newf("%q is no Conda package specification: %s", clip(s), why)
	}
	if s == "" || len(s) > maxSpec || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return bad("it must be one line of ASCII, and not empty")
	}
	var m matchSpec
	rest := strings.TrimSpace(s)
	if channel, after, ok := strings.Cut(rest, "::"); ok {
		if !isChannel(channel) {
			return bad("what stands before :: is no channel")
		}
		m.channel, rest = channel, after
	}
	if before, options, ok := strings.Cut(rest, "["); ok {
		options, closed := strings.CutSuffix(options, "]")
		if !closed || !areOptions(options) {
			return bad("what stands in brackets must be key=value, with commas between")
		}
		m.options, rest = options, strings.TrimSpace(before)
	}
	n := len(rest) - len(strings.TrimLeft(rest, wordLetters))
	if m.name = rest[:n]; !isPackageName(m.name) {
		return bad("it must begin with the name of a package, of letters, digits, _, . and -")
	}
	m.version, m.build = cutBuild(strings.TrimSpace(rest[n:]))
	switch {
	case m.version != "" && !isVersion(m.version):
		return bad("the version cannot be read")
	case m.build != "" && !isBuild(m.build):
		return bad("the build cannot be read")
	}
	return m, nil
}

// isPackageName wants a letter, digit or _ in front: a dash would make an option
// of it, a dot a path.
func isPackageName(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '.' && strings.Trim(s, wordLetters) == ""
}

// cutBuild parts `=1.20=build` and `1.20 build`. Blanks also stand between the
// parts of a version.
func cutBuild(s string) (version, build string) {
	if at := strings.LastIndexByte(s, '='); at > 1 && s[at-1] != '!' && isVersionLetter(s[at-1]) {
		return strings.TrimSpace(s[:at]), s[at+1:]
	}
	fields := strings.Fields(s)
	n := len(fields)
	if n < 2 {
		return s, ""
	}
	last, before := fields[n-1], fields[n-2]
	if !isVersionLetter(last[0]) || !isVersionLetter(before[len(before)-1]) {
		return s, ""
	}
	return strings.Join(fields[:n-1], " "), last
}

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

// areOptions reads `key=value` with commas between; a value may be quoted, and then
// hold commas.
func areOptions(s string) bool {
	for {
		key, after, ok := strings.Cut(s, "=")
		if !ok || !isOption(strings.TrimSpace(key)) {
			return false
		}
		value, rest, more := cutOption(strings.TrimSpace(after))
		if value == "" || strings.Trim(value, versionLetters+"<>=~|,()^$:/ ") != "" {
			return false
		}
		if !more {
			return strings.TrimSpace(rest) == ""
		}
		s = rest
	}
}

func isOption(key string) bool {
	switch key {
	case "version", "build", "build_number", "channel", "subdir", "md5", "sha256", "license", "track_features", "features":
		return true
	}
	return false
}

// cutOption takes a value from the front; more says whether a comma follows it.
func cutOption(s string) (value, rest string, more bool) {
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		value, rest, ok := strings.Cut(s[1:], s[:1])
		if !ok {
			return "", "", false
		}
		after, more := strings.CutPrefix(strings.TrimSpace(rest), ",")
		return value, after, more
	}
	return strings.Cut(s, ",")
}
