package installed

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"slipway.dev/services/internal/limits"
)

// A stanza is a paragraph of a file of fields, as dpkg, apk, Python and R write it: "Name: value" lines, and
// lines that begin with a space continue a value. Of several fields with one name the values are separated by
// newlines. Values above limits.ImageRecordField are empty.
type stanza struct {
	values map[string]string
	// tooLong are the fields whose values are too long.
	tooLong map[string]bool
	last    string
}

// A field selects lines of a file. name is compared exactly if it has upper case letters, as for apk. If prefix
// is set, other values are ignored.
type field struct{ name, prefix string }

// stanzas returns the paragraphs of a file with only the wanted fields.
func stanzas(raw []byte, wanted ...field) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		var s stanza
		for line := range bytes.Lines(raw) {
			line = bytes.TrimRight(line, "\r\n")
			if len(bytes.TrimSpace(line)) > 0 {
				s.add(line, wanted)
				continue
			}
			if s.values != nil && !yield(s.values) {
				return
			}
			s = stanza{}
		}
		if s.values != nil {
			yield(s.values)
		}
	}
}

// add adds a line to the field that it begins, or to the last one.
func (s *stanza) add(line []byte, wanted []field) {
	if s.values == nil {
		s.values, s.tooLong = map[string]string{}, map[string]bool{}
	}
	value := line
	if line[0] != ' ' && line[0] != '\t' {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		value, s.last = rest, ""
		i := slices.IndexFunc(wanted, func(f field) bool {
			return string(name) == f.name || f.name == strings.ToLower(f.name) && bytes.EqualFold(name, []byte(f.name))
		})
		if i < 0 || !bytes.HasPrefix(bytes.TrimSpace(rest), []byte(wanted[i].prefix)) {
			return
		}
		s.last = wanted[i].name
	}
	if s.last == "" || s.tooLong[s.last] {
		return
	}
	before, some := s.values[s.last]
	if value = bytes.TrimSpace(value); len(before)+len(value) >= limits.ImageRecordField {
		s.values[s.last], s.tooLong[s.last] = "", true
		return
	}
	if some {
		s.values[s.last] = before + "\n" + string(value)
	} else {
		s.values[s.last] = string(value)
	}
}

// oneLine returns a value whose continuation lines are joined.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
