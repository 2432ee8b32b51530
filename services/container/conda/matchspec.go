package conda

import (
	"strings"

	"slipway.dev/services/internal/fault"
)

// MatchSpec is a Conda package specification, taken apart. Its forms are `name`,
// `name=1.20`, `name >=1.2,<2`, `name=1.20=build`, `name 1.20 build`, with `channel::`
// before and `[key=value, …]` behind.
type MatchSpec struct {
	Channel, Name, Version, Build string
	// Options is what stands between the brackets.
	Options string
	// text is the whole; body is what stands between the channel and the brackets.
	text, body             string
	hasChannel, hasOptions bool
}

// maxSpec is how long a specification may be, in characters.
const maxSpec = 500

// wordLetters are those that mean themselves wherever they stand.
const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// takeApart finds the body of a specification without judging it: dependencies of
// environment files and of pip are for micromamba to read, and only named here.
func takeApart(text string) MatchSpec {
	m := MatchSpec{text: text}
	m.Channel, m.body, m.hasChannel = strings.Cut(text, "::")
	if !m.hasChannel {
		m.Channel, m.body = "", text
	}
	m.body, m.Options, m.hasOptions = strings.Cut(m.body, "[")
	return m
}

// ParseMatchSpec is stricter than Conda: what it lets through is one specification of
// one named package, and nothing that a tool could take for a path, a URL or an
// option. fault.Invalid otherwise, without the field.
func ParseMatchSpec(s string) (MatchSpec, error) {
	bad := func(why string) (MatchSpec, error) {
		return MatchSpec{}, fault.Invalid.Newf("%q is not a Conda package specification: %s", clip(s), why)
	}
	if s == "" || len(s) > maxSpec || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return bad("it must be one line of ASCII, and not empty")
	}
	m := takeApart(strings.TrimSpace(s))
	if m.hasChannel && !isChannel(m.Channel) {
		return bad("what stands before :: is not a channel")
	}
	if m.hasOptions {
		var closed bool
		if m.Options, closed = strings.CutSuffix(m.Options, "]"); !closed || !areOptions(m.Options) {
			return bad("what stands in brackets must be key=value, with commas between")
		}
		m.body = strings.TrimSpace(m.body)
	}
	n := len(m.body) - len(strings.TrimLeft(m.body, wordLetters))
	if m.Name = m.body[:n]; !isPackageName(m.Name) {
		return bad("it must begin with the name of a package, of letters, digits, _, . and -")
	}
	m.Version, m.Build = cutBuild(strings.TrimSpace(m.body[n:]))
	switch {
	case m.Version != "" && !isVersion(m.Version):
		return bad("the version cannot be read")
	case m.Build != "" && !isBuild(m.Build):
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
