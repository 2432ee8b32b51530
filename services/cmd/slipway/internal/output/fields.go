package output

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A shape describes the document of a command: which of its members holds the entries, and the fields of an entry.
type shape struct {
	entries string // "" if the document is the entry
	isList  bool
	fields  []string // sorted
}

// A member is a member of a document.
type member struct {
	name           string
	isText, isList bool
	fields         []string // of an object, or of the objects of a list
}

// shapesOf returns the shapes of a document. It has several if its members are alternatives.
func shapesOf(doc any) []shape {
	switch doc := doc.(type) {
	case proto.Message:
		return shapesOfMembers(membersOfMessage(doc.ProtoReflect().Descriptor()))
	case map[string]any:
		var all []member
		for name, v := range doc {
			all = append(all, memberOfType(name, reflect.TypeOf(v)))
		}
		return shapesOfMembers(all)
	}
	t := reflect.TypeOf(doc)
	if t.Kind() == reflect.Slice {
		return []shape{{isList: true, fields: fieldsOf(t.Elem())}}
	}
	return shapesOfMembers(membersOfStruct(t))
}

// shapesOfMembers returns what holds the entries: the only list of objects or the only object that is present, unless the document can have
// texts, too. A token of the next page does not count.
func shapesOfMembers(all []member) []shape {
	whole := shape{fields: []string{}}
	hasTexts := false
	var out []shape
	for _, m := range all {
		whole.fields = append(whole.fields, m.name)
		switch {
		case m.name == "nextPageToken":
		case m.isText || m.isList && m.fields == nil:
			hasTexts = true
		case m.fields != nil:
			out = append(out, shape{m.name, m.isList, m.fields})
		}
	}
	slices.Sort(whole.fields)
	switch {
	case hasTexts || len(out) == 0:
		return []shape{whole}
	case len(out) > 1:
		return append(out, whole)
	}
	return out
}

// membersOfMessage returns the members of a message in JSON.
func membersOfMessage(d protoreflect.MessageDescriptor) []member {
	var out []member
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		m := member{name: f.JSONName(), isList: f.IsList(), isText: !f.IsList() && isText(f)}
		if f.Message() != nil && (f.IsMap() || !isScalar(f.Message())) {
			m.fields = []string{}
			if !f.IsMap() {
				m.fields = namesOfMessage(f.Message())
			}
		}
		out = append(out, m)
	}
	return out
}

func namesOfMessage(d protoreflect.MessageDescriptor) []string {
	out := make([]string, 0, d.Fields().Len())
	for i := range d.Fields().Len() {
		out = append(out, d.Fields().Get(i).JSONName())
	}
	slices.Sort(out)
	return out
}

// isScalar reports whether JSON has a message as a string, a number or a boolean.
func isScalar(d protoreflect.MessageDescriptor) bool {
	return d.ParentFile().Package() == "google.protobuf" && d.Name() != "Struct"
}

// isText reports whether JSON has a field as a string.
func isText(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		return true
	case protoreflect.MessageKind:
		return slices.Contains([]protoreflect.Name{"StringValue", "BytesValue", "Timestamp", "Duration"}, f.Message().Name()) && isScalar(f.Message())
	default:
		return false
	}
}

// membersOfStruct returns the members of a struct in JSON.
func membersOfStruct(t reflect.Type) []member {
	var out []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			out = append(out, membersOfStruct(f.Type)...)
		} else if f.IsExported() && name != "-" {
			out = append(out, memberOfType(cmp.Or(name, f.Name), f.Type))
		}
	}
	return out
}

func memberOfType(name string, t reflect.Type) member {
	m := member{name: name, isText: t.Kind() == reflect.String}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		m.fields = []string{}
	case t.Kind() == reflect.Slice:
		m.isList, m.fields = true, fieldsOf(t.Elem())
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		m.fields = fieldsOf(t)
	}
	return m
}

// fieldsOf returns the fields of an object; nil for other values.
func fieldsOf(t reflect.Type) []string {
	if t.Implements(reflect.TypeFor[proto.Message]()) {
		if m, ok := reflect.New(t.Elem()).Interface().(proto.Message); ok {
			return namesOfMessage(m.ProtoReflect().Descriptor())
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Map:
		return []string{}
	case reflect.Struct:
		out := []string{}
		for _, m := range membersOfStruct(t) {
			out = append(out, m.name)
		}
		slices.Sort(out)
		return out
	default:
		return nil
	}
}

// Of declares the documents that a command prints: messages, or values that are encoded as JSON. Their fields are those of --json.
func (f *Format) Of(docs ...any) *Format {
	f.shapes = nil
	for _, doc := range docs {
		f.shapes = append(f.shapes, shapesOf(doc)...)
	}
	return f
}

// known returns the fields of --json.
func (f *Format) known() []string {
	var all []string
	for _, s := range f.shapes {
		all = append(all, s.fields...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// FieldsHelp returns which fields --json of a command has, for a command line without them; "" if it has none.
func FieldsHelp(cmd *cobra.Command) string {
	f := cmd.Flags().Lookup("json")
	if f == nil {
		return ""
	}
	v, ok := f.Value.(fieldsFlag)
	if !ok {
		return ""
	}
	return "give --json one or more fields with commas between them: " + strings.Join(v.f.known(), ", ")
}

// complete completes the last of several fields.
func (f *Format) complete(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	var out []cobra.Completion
	for _, name := range f.known() {
		if !slices.Contains(strings.Split(before, ","), name) {
			out = append(out, before+name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// entriesOf returns the shape of a document that has one of the shapes.
func entriesOf(shapes []shape, doc members) (shape, bool) {
	present := 0
	var found shape
	for _, s := range shapes {
		if _, ok := doc[s.entries]; ok && s.entries != "" {
			found = s
			present++
		}
	}
	switch {
	case present == 1:
		return found, true
	case len(shapes) == 1 && shapes[0].isList: // an empty list is omitted
		return shapes[0], true
	}
	return shape{}, false
}

// withList returns a document with its list, which servers omit if it is empty.
func withList(raw []byte, shapes []shape) []byte {
	var doc members
	if len(shapes) != 1 || !shapes[0].isList || shapes[0].entries == "" || json.Unmarshal(raw, &doc) != nil {
		return raw
	}
	name := shapes[0].entries
	if v, ok := doc[name]; doc == nil || ok && string(v) != "null" {
		return raw
	}
	if _, isNull := doc[name]; isNull {
		doc[name] = json.RawMessage("[]")
		if out, err := json.Marshal(doc); err == nil {
			return out
		}
		return raw
	}
	key, _ := json.Marshal(name) // a string always encodes
	begin := append(append([]byte("{"), key...), ":[]"...)
	if len(doc) > 0 {
		begin = append(begin, ',')
	}
	return append(begin, strings.TrimLeft(strings.TrimLeft(string(raw), " \t\r\n")[1:], " \t\r\n")...)
}
