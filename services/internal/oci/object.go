package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"slipway.dev/services/internal/limits"
)

// object is a JSON object that keeps the order of its members and the exact
// bytes of those that nobody sets. Like encoding/json it finds a member whatever
// the case of its key, so that both read the same in a document.
type object struct {
	members []member
}

type member struct {
	key   string
	value json.RawMessage
}

// parseObject reads raw. A key that comes twice is refused: readers differ in
// which one they believe.
func parseObject(raw []byte) (*object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if len(o.members) == limits.DocumentMembers {
			return nil, fmt.Errorf("an object has more than %d members", limits.DocumentMembers)
		}
		m := member{key: t.(string)} //nolint:forcetypeassert // the decoder yields keys as strings
		if o.get(m.key) != nil {
			return nil, fmt.Errorf("the member %q comes twice", m.key)
		}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		o.members = append(o.members, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	return &o, nil
}

// get returns a member's bytes, nil when it is not there or null.
func (o *object) get(key string) json.RawMessage {
	for _, m := range o.members {
		if strings.EqualFold(m.key, key) && !isNull(m.value) {
			return m.value
		}
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// set replaces a member, or adds it at the end.
func (o *object) set(key string, value any) error {
	raw, err := encode(value)
	if err != nil {
		return err
	}
	for i := range o.members {
		if strings.EqualFold(o.members[i].key, key) {
			o.members[i].value = raw
			return nil
		}
	}
	o.members = append(o.members, member{key, raw})
	return nil
}

// remove drops a member that may not be there.
func (o *object) remove(key string) {
	for i := range o.members {
		if strings.EqualFold(o.members[i].key, key) {
			o.members = append(o.members[:i], o.members[i+1:]...)
			return
		}
	}
}

// MarshalJSON writes the members as they came.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := encode(m.key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode is json.Marshal without the escaping that HTML would want, and without
// touching the bytes of an object's members.
func encode(v any) ([]byte, error) {
	if o, ok := v.(*object); ok {
		return o.MarshalJSON()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// elements splits a JSON array; nil when raw is absent.
func elements(raw json.RawMessage) ([]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	var list []json.RawMessage
	err := Decode(raw, &list)
	return list, err
}

// array joins elements with their bytes untouched.
func array(list []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(e)
	}
	b.WriteByte(']')
	return b.Bytes()
}
