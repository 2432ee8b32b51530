package spec

import (
	"slices"
	"strings"
)

// A MatchSpec selects records (CEP 29): those of a name that match all fields that are set.
// The values that its fields refer to are never modified, so that a shallow copy can be changed.
type MatchSpec struct {
	// Name is lower case, and not empty in a parsed specification.
	Name    string
	Version VersionSpec
	// Build matches the build string. BuildNumber is parsed as a version with one number.
	Build       Pattern
	BuildNumber VersionSpec
	// Channel is a name or URL, Subdir e.g. "noarch"; "" matches any.
	Channel, Subdir string
	FileName, URL   string
	// MD5 and SHA256 are of the artifact, in lower-case hex.
	MD5, SHA256            string
	License, LicenseFamily string
	// TrackFeatures must all be among the record's.
	TrackFeatures []string
}

// Match reports whether r matches. A record with an unparsable version matches no version
// bound.
func (m *MatchSpec) Match(r *Record) bool {
	if m.Name != r.Name {
		return false
	}
	if !m.Version.Any() {
		v, err := ParseVersion(r.Version)
		if err != nil || !m.Version.Match(v) {
			return false
		}
	}
	return m.MatchRest(r)
}

// MatchRest reports whether r matches in all fields except name and version. Callers that
// match many records of few versions match each version once.
func (m *MatchSpec) MatchRest(r *Record) bool {
	return m.Build.Match(r.Build) && m.matchNumber(r) &&
		(m.Channel == "" || SameChannel(m.Channel, r.Channel)) &&
		same(m.Subdir, r.Subdir) && same(m.FileName, r.FileName) && same(m.URL, r.URL) &&
		same(m.MD5, r.MD5) && same(m.SHA256, r.SHA256) &&
		same(m.License, r.License) && same(m.LicenseFamily, r.LicenseFamily) &&
		!slices.ContainsFunc(m.TrackFeatures, func(f string) bool { return !slices.Contains(r.TrackFeatures, f) })
}

func (m *MatchSpec) matchNumber(r *Record) bool {
	return m.BuildNumber.Any() || m.BuildNumber.Match(numberVersion(r.BuildNumber))
}

func same(want, got string) bool { return want == "" || want == got }

// SameChannel reports whether want, as a user wrote it, is the channel that a record names:
// by its name, its URL, or the last part of its URL.
func SameChannel(want, channel string) bool {
	want, channel = strings.Trim(want, "/"), strings.TrimRight(channel, "/")
	if want == channel {
		return true
	}
	long, short := want, channel
	if len(long) < len(short) {
		long, short = short, long
	}
	return short != "" && strings.Contains(long, "://") && !strings.Contains(short, "://") && strings.HasSuffix(long, "/"+short)
}

// String returns the specification in its shortest form, which ParseMatchSpec parses:
// `channel/subdir::name version build[key="value"]`.
func (m MatchSpec) String() string {
	var out strings.Builder
	if m.Channel != "" {
		out.WriteString(m.Channel)
		if m.Subdir != "" {
			out.WriteString("/" + m.Subdir)
		}
		out.WriteString("::")
	}
	out.WriteString(m.Name)
	version, build := m.Version.String(), m.Build.String()
	plain := isPlain(version) && isPlain(build)
	if plain {
		if version == "" && build != "" {
			version = "*"
		}
		for _, part := range []string{version, build} {
			if part != "" {
				out.WriteString(" " + part)
			}
		}
	}
	writeOptions(&out, m.options(plain))
	return out.String()
}

// isPlain reports whether a version or build may be written outside the brackets.
func isPlain(s string) bool { return !strings.ContainsAny(s, " ^$[]\"'#") }

type option struct{ key, value string }

// options returns the options in brackets.
func (m *MatchSpec) options(plain bool) []option {
	all := []option{
		{"build_number", m.BuildNumber.String()},
		{"fn", m.FileName},
		{"url", m.URL},
		{"md5", m.MD5},
		{"sha256", m.SHA256},
		{"license", m.License},
		{"license_family", m.LicenseFamily},
		{"track_features", strings.Join(m.TrackFeatures, " ")},
	}
	if m.Channel == "" {
		all = append(all, option{"subdir", m.Subdir})
	}
	if !plain {
		all = append(all, option{"version", m.Version.String()}, option{"build", m.Build.String()})
	}
	return slices.DeleteFunc(all, func(o option) bool { return o.value == "" })
}

func writeOptions(out *strings.Builder, options []option) {
	for i, o := range options {
		sep, quote := ", ", `"`
		if i == 0 {
			sep = "["
		}
		if strings.Contains(o.value, quote) {
			quote = "'"
		}
		out.WriteString(sep + o.key + "=" + quote + o.value + quote)
	}
	if len(options) > 0 {
		out.WriteByte(']')
	}
}

// HasOtherFields reports whether fields other than name and version are set.
func (m *MatchSpec) HasOtherFields() bool {
	return !m.Build.Any() || !m.BuildNumber.Any() || len(m.TrackFeatures) > 0 ||
		m.Channel+m.Subdir+m.FileName+m.URL+m.MD5+m.SHA256+m.License+m.LicenseFamily != ""
}
