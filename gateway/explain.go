package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// notJSON is the message for a malformed body, or its beginning.
const notJSON = "Invalid JSON request body"

// explain returns a message that states why raw does not match the message type that v
// points to. The library's own message changes from build to build.
func explain(raw []byte, v any) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return notJSON
	}
	desc := descriptorOf(v)
	if desc == nil {
		return notJSON
	}
	if field, want := mismatch("", value, desc); want != "" {
		if field == "" {
			return notJSON + ": it must be " + want
		}
		return fmt.Sprintf("%s: %s must be %s", notJSON, field, want)
	}
	return notJSON
}

// descriptorOf returns the descriptor of the message behind the pointer, or pointer to a
// pointer, that generated code decodes into.
func descriptorOf(v any) protoreflect.MessageDescriptor {
	if m, ok := v.(proto.Message); ok {
		return m.ProtoReflect().Descriptor()
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.Elem().Kind() != reflect.Pointer {
		return nil
	}
	m, ok := reflect.New(rv.Type().Elem().Elem()).Interface().(proto.Message)
	if !ok {
		return nil
	}
	return m.ProtoReflect().Descriptor()
}

// mismatch finds the first member whose JSON type does not match; want is "" if all match.
func mismatch(path string, value any, desc protoreflect.MessageDescriptor) (field, want string) {
	members, ok := value.(map[string]any)
	if !ok {
		return path, "an object"
	}
	fields := desc.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		v, ok := members[fd.JSONName()]
		if !ok {
			v = members[string(fd.Name())]
		}
		if v == nil {
			continue
		}
		at := fd.JSONName()
		if path != "" {
			at = path + "." + at
		}
		if field, want := misfit(at, v, fd); want != "" {
			return field, want
		}
	}
	return "", ""
}

func misfit(at string, v any, fd protoreflect.FieldDescriptor) (field, want string) {
	if fd.IsMap() {
		return "", ""
	}
	if !fd.IsList() {
		return single(at, v, fd)
	}
	list, ok := v.([]any)
	if !ok {
		return at, "a list"
	}
	for i, e := range list {
		if field, want := single(fmt.Sprintf("%s[%d]", at, i), e, fd); want != "" {
			return field, want
		}
	}
	return "", ""
}

func single(at string, v any, fd protoreflect.FieldDescriptor) (field, want string) {
	var fits bool
	switch fd.Kind() {
	case protoreflect.MessageKind:
		if fd.Message().FullName() != "google.protobuf.Struct" {
			return mismatch(at, v, fd.Message())
		}
		_, fits = v.(map[string]any)
		want = "an object"
	case protoreflect.StringKind:
		_, fits = v.(string)
		want = "a string"
	case protoreflect.BoolKind:
		_, fits = v.(bool)
		want = "true or false"
	default:
		fits, want = isInteger(v), "a whole number"
	}
	if fits {
		return "", ""
	}
	return at, want
}

// isInteger accepts 12 and "12".
func isInteger(v any) bool {
	var text string
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	var n int64
	_, err := fmt.Sscanf(text+"\n", "%d\n", &n)
	return err == nil
}
