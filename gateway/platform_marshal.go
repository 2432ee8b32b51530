package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// platformMarshaler implements the platform's JSON. Lists and members without presence are
// always included. Documents, which are JSON, and bodies for a field of type bytes are passed
// on unchanged.
type platformMarshaler struct{ *marshaler }

func newPlatformMarshaler() *platformMarshaler {
	m := newMarshaler(jsonLimits{values: MaxPlatformValues, depth: MaxDepth})
	m.MarshalOptions = protojson.MarshalOptions{EmitUnpopulated: true}
	return &platformMarshaler{m}
}

// Marshal encodes a message: its documents unchanged, everything else with protojson.
func (m *platformMarshaler) Marshal(v any) ([]byte, error) {
	msg, ok := v.(proto.Message)
	if !ok || !holdsDocuments(msg.ProtoReflect().Descriptor()) {
		return m.marshaler.Marshal(v)
	}
	return m.object(msg.ProtoReflect())
}

// object encodes a message that is or contains documents.
func (m *platformMarshaler) object(msg protoreflect.Message) ([]byte, error) {
	if d, is := msg.Interface().(*platformv1.Document); is {
		return d.GetJson(), nil
	}
	rest, with := msg.New(), []protoreflect.FieldDescriptor{}
	msg.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() != nil && holdsDocuments(fd.Message()) {
			with = append(with, fd)
		} else {
			rest.Set(fd, v)
		}
		return true
	})
	raw, err := m.marshaler.Marshal(rest.Interface())
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	for _, fd := range with {
		if members[fd.JSONName()], err = m.member(fd, msg.Get(fd)); err != nil {
			return nil, err
		}
	}
	return joinObject(members), nil
}

// member encodes a message, or a list of messages, that contain documents.
func (m *platformMarshaler) member(fd protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	if !fd.IsList() {
		return m.object(v.Message())
	}
	items := make([][]byte, v.List().Len())
	for i := range items {
		var err error
		if items[i], err = m.object(v.List().Get(i).Message()); err != nil {
			return nil, err
		}
	}
	return slices.Concat([]byte("["), bytes.Join(items, []byte(",")), []byte("]")), nil
}

// joinObject encodes an object. encoding/json would parse each member again.
func joinObject(members map[string]json.RawMessage) []byte {
	var b bytes.Buffer
	for i, name := range slices.Sorted(maps.Keys(members)) {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(`"` + name + `":`) // names of fields need no escapes
		b.Write(members[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// holdsDocuments reports whether a message is or contains a document.
func holdsDocuments(m protoreflect.MessageDescriptor) bool {
	if m.FullName() == "slipway.platform.v1.Document" {
		return true
	}
	if m.ParentFile().Package() != "slipway.platform.v1" { // google.protobuf.Value is recursive
		return false
	}
	for i := range m.Fields().Len() {
		if fd := m.Fields().Get(i); fd.Message() != nil && !fd.IsMap() && holdsDocuments(fd.Message()) {
			return true
		}
	}
	return false
}

// NewDecoder reads a request body.
func (m *platformMarshaler) NewDecoder(r io.Reader) runtime.Decoder {
	usual := m.marshaler.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		raw, ok := v.(*[]byte)
		if !ok {
			return usual.Decode(v)
		}
		if body, ok := r.(*readBody); ok {
			defer body.decoded()
		}
		return m.readRaw(r, raw)
	})
}
