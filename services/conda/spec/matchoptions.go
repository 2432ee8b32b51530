package spec

import (
	"strconv"
	"strings"

	"slipway.dev/services/internal/fault"
)

// maxOptions exceeds the number of existing keys.
const maxOptions = 20

// cutOptions splits off the options in brackets at the end of a specification and drops a
// comment.
func cutOptions(text string) (rest string, options []option, _ *fault.Error) {
	at := strings.IndexByte(text, '[')
	if comment := strings.IndexByte(text, '#'); comment >= 0 && (at < 0 || comment < at) {
		return strings.TrimSpace(text[:comment]), nil, nil
	}
	if at < 0 {
		return strings.TrimSpace(text), nil, nil
	}
	rest, s := strings.TrimSpace(text[:at]), strings.TrimLeft(text[at+1:], " ")
	for !strings.HasPrefix(s, "]") {
		if len(options) == maxOptions {
			return "", nil, why("options in brackets must be key=value, with commas between")
		}
		o, behind, err := cutOption(s)
		if err != nil {
			return "", nil, err
		}
		options, s = append(options, o), behind
		if s = strings.TrimLeft(s, " "); strings.HasPrefix(s, ",") {
			s = strings.TrimLeft(s[1:], " ")
		}
	}
	after := strings.TrimLeft(s[1:], " ")
	if after != "" && after[0] != '#' {
		return "", nil, why("nothing may follow the brackets")
	}
	return rest, options, nil
}

// cutOption cuts a key and its value off the front.
func cutOption(s string) (o option, rest string, _ *fault.Error) {
	key, after, ok := strings.Cut(s, "=")
	if !ok {
		return o, "", why("options in brackets must be key=value, with commas between")
	}
	o.key = strings.TrimSpace(key)
	if isConditional(o.key) {
		return o, "", conditional()
	}
	if o.value, rest, ok = cutValue(strings.TrimLeft(after, " ")); !ok {
		return o, "", why("a bracket or quote is not closed")
	}
	return o, rest, nil
}

// cutValue cuts a value off the front: quoted, or up to a comma, blank or bracket.
func cutValue(s string) (value, rest string, ok bool) {
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		return strings.Cut(s[1:], s[:1])
	}
	n := strings.IndexAny(s, ", ]")
	if n < 0 || strings.ContainsAny(s[:n], `'"`) {
		return "", "", false
	}
	return s[:n], s[n:], true
}

// isConditional reports whether a key belongs to conditional dependencies or extras.
func isConditional(key string) bool { return key == "when" || key == "extras" || key == "condition" }

// setOption sets the field of one option.
func (m *MatchSpec) setOption(o option) *fault.Error {
	switch o.key {
	case "version":
		return m.setVersion(o.value)
	case "build":
		return m.setBuild(o.value)
	case "build_number":
		return m.setBuildNumber(o.value)
	case "channel":
		return m.setChannel(o.value)
	case "track_features", "features":
		m.TrackFeatures = strings.FieldsFunc(o.value, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	case "md5", "sha256":
		if !IsHex(o.value) {
			return why("the checksum must be in hex")
		}
		o.value = strings.ToLower(o.value)
	}
	field, ok := map[string]*string{
		"subdir": &m.Subdir, "fn": &m.FileName, "url": &m.URL, "md5": &m.MD5, "sha256": &m.SHA256,
		"license": &m.License, "license_family": &m.LicenseFamily,
	}[o.key]
	if !ok {
		return why("the key " + fault.Quoted(o.key) + " is not known")
	}
	*field = o.value
	return nil
}

func (m *MatchSpec) setBuildNumber(s string) *fault.Error {
	spec, err := ParseVersionSpec(s)
	if err != nil {
		return because("the build number cannot be read", err)
	}
	m.BuildNumber = spec
	return nil
}

func IsHex(s string) bool {
	return leading(strings.ToLower(s), func(c byte) bool { return isDigit(c) || ('a' <= c && c <= 'f') }) == len(s)
}

// numberVersion returns a build number as a version.
func numberVersion(n uint64) Version {
	v := Version{text: strconv.FormatUint(n, 10)}
	v.release = []segment{{{kind: number, text: strings.TrimLeft(v.text, "0")}}}
	return v
}
