package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// chosen selects parts of a response's document: fields of its entries, and a query on
// them. The zero value selects everything.
type chosen struct {
	fields []string
	query  *gojq.Code // nil for none
}

// fieldsFlag is --json.
type fieldsFlag struct{ f *Format }

// Set parses the flag.
func (v fieldsFlag) Set(s string) error {
	if v.f.Kind != text {
		return errors.New("is a format of its own; leave out -o")
	}
	fields := strings.Split(s, ",")
	for i, name := range fields {
		if fields[i] = strings.TrimSpace(name); fields[i] == "" {
			return errors.New("must be names with commas between them, e.g. buildId,status")
		}
	}
	known := v.f.known()
	for _, name := range fields {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no field %q; the fields are %s", name, strings.Join(known, ", "))
		}
	}
	v.f.fields = fields
	return nil
}

// String returns the flag's value.
func (v fieldsFlag) String() string {
	if v.f == nil {
		return ""
	}
	return strings.Join(v.f.fields, ",")
}

// Type returns the flag's type for the help.
func (fieldsFlag) Type() string { return "fields" }

// queryFlag is --jq.
type queryFlag struct {
	f      *Format
	source string
}

// Set parses the flag.
func (v *queryFlag) Set(s string) error {
	if v.f.Kind != text {
		return errors.New("is a format of its own; leave out -o")
	}
	q, err := gojq.Parse(s)
	if err == nil {
		v.f.query, err = gojq.Compile(q)
	}
	if err != nil {
		return fmt.Errorf("is not a jq expression: %w", err)
	}
	v.source = s
	return nil
}

// String returns the flag's value.
func (v *queryFlag) String() string { return v.source }

// Type returns the flag's type for the help.
func (*queryFlag) Type() string { return "expression" }

// isAll reports whether the whole document is selected.
func (c chosen) isAll() bool { return c.fields == nil && c.query == nil }

// write prints the selected parts of a document: as JSON or, with a query, each of its
// values on a line, strings without quotes.
func (c chosen) write(b *bytes.Buffer, raw []byte, shapes []shape) error {
	if c.fields != nil {
		var err error
		if raw, err = pick(raw, c.fields, shapes); err != nil {
			return err
		}
	}
	if c.query == nil {
		if err := json.Indent(b, raw, "", "  "); err != nil {
			return fmt.Errorf("indenting the answer: %w", err)
		}
		b.WriteByte('\n')
		return nil
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	for values := c.query.Run(doc); ; {
		v, ok := values.Next()
		if !ok {
			return nil
		}
		switch v := v.(type) {
		case error:
			return fmt.Errorf("--jq: %w", v)
		case string:
			b.WriteString(PlainText(v) + "\n")
		default:
			out, err := gojq.Marshal(v)
			if err != nil {
				return fmt.Errorf("--jq: %w", err)
			}
			b.Write(append(out, '\n'))
		}
	}
}

// members are the members of an object, as encoded.
type members map[string]json.RawMessage

// pick returns the fields of a document's entries: a list if the document has or is a list, and an object if it has or is a single object.
// A missing member is null.
func pick(raw []byte, fields []string, shapes []shape) ([]byte, error) {
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) > 0 && raw[0] == '[' {
		return pickList(raw, fields)
	}
	var doc members
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	entries, ok := entriesOf(shapes, doc)
	switch {
	case !ok:
		return doc.pick(fields), nil
	case entries.isList:
		return pickList(doc[entries.entries], fields)
	}
	var entry members
	if err := json.Unmarshal(doc[entries.entries], &entry); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return entry.pick(fields), nil
}

// pickList returns the fields of the entries of a list; nil is an empty one.
func pickList(list []byte, fields []string) ([]byte, error) {
	var entries []members
	if len(list) > 0 {
		if err := json.Unmarshal(list, &entries); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
	}
	out := make([][]byte, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.pick(fields))
	}
	return append(append([]byte("["), bytes.Join(out, []byte(","))...), ']'), nil
}

// pick returns an object with the members that fields lists, in that order.
func (m members) pick(fields []string) []byte {
	var b bytes.Buffer
	for i, name := range fields {
		b.WriteByte("{,"[min(i, 1)])
		key, _ := json.Marshal(name) // a string always encodes
		b.Write(key)
		b.WriteByte(':')
		if v, ok := m[name]; ok {
			b.Write(v)
		} else {
			b.WriteString("null")
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}
