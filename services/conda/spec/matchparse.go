package spec

import (
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// ParseMatchSpec parses a specification of one named package: `name`, `name=1.20`, `name
// >=1.2,<2`, `name=1.20=build`, `name 1.20 build`, optionally with the prefix `channel::`
// or `channel/subdir::`, the suffix `[key=value, …]`, and a comment after `#`. It rejects
// everything that a tool could interpret as a path or an option. It returns fault.Invalid
// for malformed input, and fault.Unsupported for conditional dependencies and extras.
func ParseMatchSpec(text string) (MatchSpec, error) {
	m, why := parseMatchSpec(text)
	if why == nil {
		return m, nil
	}
	if why.Kind == fault.Unsupported {
		return MatchSpec{}, fault.Unsupported.New("The Conda package specification "+fault.Quoted(text)+" "+why.Public, why.Cause)
	}
	return MatchSpec{}, fault.Invalid.New(fault.Quoted(text)+" is not a Conda package specification: "+why.Public, why.Cause)
}

// why returns a fault whose text is the second part of a message; see ParseMatchSpec.
func why(text string) *fault.Error { return fault.Invalid.New(text, nil) }

func parseMatchSpec(text string) (MatchSpec, *fault.Error) {
	if err := checkLine(text); err != nil {
		return MatchSpec{}, err
	}
	rest, options, err := cutOptions(text)
	if err != nil {
		return MatchSpec{}, err
	}
	if strings.Contains(rest, ";") || strings.Contains(rest, " if ") {
		return MatchSpec{}, conditional()
	}
	var m MatchSpec
	if channel, after, ok := cutLast(rest, "::"); ok {
		if err := m.setChannel(channel); err != nil {
			return MatchSpec{}, err
		}
		rest = after
	}
	rest = strings.TrimLeft(rest, " ")
	n := leading(rest, isNameLetter)
	m.Name = strings.ToLower(rest[:n])
	if m.Name == "" || m.Name[0] == '-' || m.Name[0] == '.' {
		return MatchSpec{}, why("it must begin with the name of a package, of letters, digits, _, . and -")
	}
	if err := m.setBody(strings.TrimSpace(rest[n:])); err != nil {
		return MatchSpec{}, err
	}
	for _, o := range options {
		if err := m.setOption(o); err != nil {
			return MatchSpec{}, err
		}
	}
	return m, nil
}

// checkLine rejects text that cannot be a specification.
func checkLine(text string) *fault.Error {
	if len(text) > limits.CondaSpec {
		return why("it is too long")
	}
	if strings.ContainsFunc(text, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' }) {
		return why("it must be one line of ASCII")
	}
	return nil
}

func conditional() *fault.Error {
	return fault.Unsupported.New("is conditional or has extras, which is not supported", nil)
}

func isNameLetter(c byte) bool {
	return isDigit(c) || isLower(c|0x20) || c == '_' || c == '.' || c == '-'
}

// cutLast cuts at the last sep: a URL before it may contain others.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

// setChannel parses the part before the colons: a channel with an optional subdir.
func (m *MatchSpec) setChannel(s string) *fault.Error {
	s = strings.Trim(s, " ")
	if i := strings.LastIndexByte(s, '/'); i > 0 && isSubdir(s[i+1:]) {
		s, m.Subdir = s[:i], s[i+1:]
	}
	rest := s
	for _, scheme := range []string{"https://", "http://", "oci://", "file://"} {
		rest = strings.TrimPrefix(rest, scheme)
	}
	if rest == "" || leading(rest, isChannelLetter) != len(rest) || rest[0] == '-' {
		return why("the part before :: is not a channel")
	}
	m.Channel = s
	return nil
}

func isChannelLetter(c byte) bool {
	return isNameLetter(c) || strings.IndexByte("/:@+~%", c) >= 0
}

// isSubdir reports whether s is the folder of a platform, e.g. linux-64 or noarch.
func isSubdir(s string) bool {
	if s == "noarch" {
		return true
	}
	os, arch, ok := strings.Cut(s, "-")
	switch os {
	case "linux", "osx", "win", "freebsd", "zos", "emscripten", "wasi", "unknown":
		return ok && arch != "" && leading(arch, func(c byte) bool { return isDigit(c) || isLower(c) }) == len(arch)
	}
	return false
}

// setBody parses the version and build after the name.
func (m *MatchSpec) setBody(s string) *fault.Error {
	version, build := cutBuild(s)
	if build != "" && isFuzzy(version) {
		// If a build follows, =1.20 means exactly 1.20.
		version = version[1:]
	}
	if err := m.setVersion(version); err != nil {
		return err
	}
	return m.setBuild(build)
}

// isFuzzy reports whether a version has the form =1.20, which alone means 1.20.*.
func isFuzzy(version string) bool {
	return strings.HasPrefix(version, "=") && !strings.HasPrefix(version, "==") && !strings.ContainsAny(version, ",|*")
}

// cutBuild splits `=1.20=build` and `1.20 build`. Blanks may also separate the parts of a
// version.
func cutBuild(s string) (version, build string) {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == ' ' || s[i] == '\t':
			after := strings.TrimLeft(s[i:], " \t")
			if after != "" && !joins(s[i-1]) && !joins(after[0]) {
				return s[:i], after
			}
			// These blanks are within the version: continue after them.
			i = len(s) - len(after)
		case s[i] == '=' && !strings.ContainsRune("=<>!~,|( ", rune(s[i-1])):
			return s[:i], strings.TrimLeft(s[i+1:], " ")
		}
	}
	return s, ""
}

// joins reports whether a version continues across the blank next to c.
func joins(c byte) bool { return strings.IndexByte("=<>!~,|()", c) >= 0 }

func (m *MatchSpec) setVersion(s string) *fault.Error {
	spec, err := ParseVersionSpec(s)
	if err != nil {
		return because("the version cannot be read", err)
	}
	m.Version = spec
	return nil
}

func (m *MatchSpec) setBuild(s string) *fault.Error {
	isRegex := strings.HasPrefix(s, "^") && strings.HasSuffix(s, "$")
	if !isRegex && leading(s, isBuildLetter) != len(s) {
		return why("the build cannot be read")
	}
	p, err := ParsePattern(s)
	if err != nil {
		return because("the build cannot be read", err)
	}
	m.Build = p
	return nil
}

func isBuildLetter(c byte) bool { return isNameLetter(c) || c == '+' || c == '*' || c == '!' }

// because adds a prefix to the error of a parser of a part.
func because(what string, err error) *fault.Error {
	if e, ok := fault.As(err); ok {
		return fault.Invalid.New(what+" ("+e.Public+")", e.Cause)
	}
	return fault.Invalid.New(what, err)
}
