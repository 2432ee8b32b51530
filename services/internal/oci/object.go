package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"slipway.dev/services/internal/limits"
)

// An object is a JSON object that preserves the order of its members and the exact bytes of
// unchanged ones. Like encoding/json it ignores the case of keys, so that both find the
// same members.
type object struct {
	members []member
}

type member struct {
	key   string
	value json.RawMessage
}

// parseObject parses an object. Duplicate keys are rejected, because implementations differ
// in which one they use.
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
			return nil, fmt.Errorf("the member %q is duplicate", m.key)
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

// get returns a member's bytes, or nil if it is missing or null.
func (o *object) get(key string) json.RawMessage {
	for _, m := range o.members {
		if strings.EqualFold(m.key, key) && !isNull(m.value) {
			return m.value
		}
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// set replaces a member or appends it.
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

// remove removes a member if it exists.
func (o *object) remove(key string) {
	for i := range o.members {
		if strings.EqualFold(o.members[i].key, key) {
			o.members = append(o.members[:i], o.members[i+1:]...)
			return
		}
	}
}

// MarshalJSON implements json.Marshaler.
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

// encode is like json.Marshal, but does not escape for HTML and preserves the bytes of an
// object's members.
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

// elements returns the elements of a JSON array, or nil if raw is nil.
func elements(raw json.RawMessage) ([]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	var list []json.RawMessage
	err := Decode(raw, &list)
	return list, err
}

// array returns a JSON array with the exact bytes of its elements.
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
