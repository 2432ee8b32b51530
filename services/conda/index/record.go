package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// facts holds the raw JSON members of a record that are needed to validate it, and its
// dependencies.
type facts struct{ name, version, build, depends []byte }

// take is called for each member.
func (f *facts) take(key, v []byte) {
	switch string(key) {
	case "name":
		f.name = v
	case "version":
		f.version = v
	case "build":
		f.build = v
	case "depends":
		f.depends = v
	}
}

// isRecord reports whether a record's name, version, build and file name are valid in a
// URL, a lock and a path.
func (f *facts) isRecord(fileName, raw []byte) bool {
	return isWord(fileName) && isWord(unquoted(f.name)) && isWord(unquoted(f.version)) && isWord(unquoted(f.build)) &&
		(bytes.IndexByte(raw, '\\') < 0 || json.Valid(raw))
}

// unquoted returns the content of a string without escapes, and nil for any other value.
func unquoted(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' || bytes.IndexByte(v, '\\') >= 0 {
		return nil
	}
	return v[1 : len(v)-1]
}

// isWord reports whether b consists of the characters that names, versions, builds and file
// names may have (CEP 26, CEP 33, CEP 36).
func isWord(b []byte) bool {
	if len(b) == 0 || len(b) > limits.ChannelWord || b[0] == '.' || b[0] == '-' {
		return false
	}
	for _, c := range b {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z':
		case c == '.', c == '_', c == '-', c == '+', c == '!', c == '~':
		default:
			return false
		}
	}
	return true
}

// records decodes the entries of one name.
type records struct {
	x       *Index
	records []spec.Record
	// at maps a file name without its extension to the index of its record.
	at map[string]int
}

func newRecords(x *Index) *records { return &records{x: x, at: map[string]int{}} }

// add decodes one entry.
func (l *records) add(fileName, raw []byte) error {
	r, err := decode(raw)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(r.Depends)+len(r.Constrains)+len(r.TrackFeatures) > limits.ChannelDepends {
		return nil // too large to be processed
	}
	r.FileName = string(fileName)
	l.insert(r)
	return nil
}

// insert adds a record. A ".conda" replaces the same artifact as ".tar.bz2".
func (l *records) insert(r spec.Record) {
	r.Channel, r.Subdir, r.URL = l.x.place.Channel, l.x.place.Subdir, l.x.base+r.FileName // of characters that URLs do not escape, see isWord
	stem := strings.TrimSuffix(strings.TrimSuffix(r.FileName, ".conda"), ".tar.bz2")
	if i, twin := l.at[stem]; twin {
		if strings.HasSuffix(r.FileName, ".conda") {
			l.records[i] = r
		}
		return
	}
	l.at[stem] = len(l.records)
	l.records = append(l.records, r)
}

// decode decodes one record. Members whose type differs from CEP 36 are treated as absent.
func decode(raw []byte) (r spec.Record, err error) {
	if _, err = object(raw, 0, maxDepth, func(key, v []byte) { set(&r, string(key), v) }); err != nil {
		return spec.Record{}, err
	}
	r.Name = strings.ToLower(r.Name)
	return r, nil
}

// set sets one member.
func set(r *spec.Record, key string, v []byte) {
	switch key {
	case "name":
		r.Name = text(v)
	case "version":
		r.Version = text(v)
	case "build":
		r.Build = text(v)
	case "build_number":
		r.BuildNumber = uint64(max(number(v), 0))
	case "depends":
		r.Depends = texts(v)
	case "constrains":
		r.Constrains = texts(v)
	case "track_features":
		r.TrackFeatures = features(v)
	case "noarch":
		r.NoArch = noarch(v)
	case "python_site_packages_path":
		r.PythonSitePackagesPath = text(v)
	case "timestamp":
		r.Timestamp = milliseconds(number(v))
	case "size":
		r.Size = max(number(v), 0)
	case "sha256":
		r.SHA256 = hash(v, 64)
	case "md5":
		r.MD5 = hash(v, 32)
	case "license":
		r.License = text(v)
	case "license_family":
		r.LicenseFamily = text(v)
	}
}

// text returns the value of a string, and "" for any other value.
func text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v) {
		return string(v[1 : len(v)-1])
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// texts returns a list of strings, at most one more than limits.ChannelDepends, and nil for
// any other value.
func texts(v []byte) []string {
	if v[0] != '[' || len(v) == 2 {
		return nil
	}
	out := make([]string, 0, min(1+bytes.Count(v, []byte{','}), limits.ChannelDepends+1))
	_, err := array(v, 0, maxDepth, func(e []byte) {
		if s := text(e); s != "" && len(out) <= limits.ChannelDepends {
			out = append(out, s)
		}
	})
	if err != nil {
		return nil
	}
	return out
}

// features returns a list of strings, which may be written as one string with commas or
// spaces.
func features(v []byte) []string {
	if v[0] == '[' {
		return texts(v)
	}
	return strings.FieldsFunc(text(v), func(c rune) bool { return c == ',' || c == ' ' })
}

// noarch returns the kind of a noarch package. Old records have true for "generic".
func noarch(v []byte) string {
	switch s := text(v); {
	case s == "python", s == "generic":
		return s
	case s != "", string(v) == "true":
		return "generic"
	}
	return ""
}

// number returns an integer, and 0 for any other value.
func number(v []byte) int64 {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}

// milliseconds returns a timestamp in milliseconds. Old records have seconds.
func milliseconds(n int64) int64 {
	const year9999 = 253402300799
	switch {
	case n < 0:
		return 0
	case n <= year9999:
		return n * 1000
	}
	return n
}

// hash returns a digest of the given number of hex digits in lower case, and "" for any
// other value.
func hash(v []byte, digits int) string {
	s := strings.ToLower(text(v))
	if len(s) != digits || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}
