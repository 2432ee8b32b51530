package gateway

import (
	"encoding/base64"
	"io"
	"regexp"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// platformMarshaler is the platform's JSON: lists are always there, and so is
// every member that has no presence; documents are passed on as they came; a body
// that a room wants as it came is not read here.
type platformMarshaler struct{ *marshaler }

func newPlatformMarshaler() *platformMarshaler {
	m := newMarshaler()
	m.MarshalOptions = protojson.MarshalOptions{EmitUnpopulated: true}
	return &platformMarshaler{m}
}

// Marshal writes a message. protojson cannot pass JSON on, so it is given numbers
// in place of the documents, and those are replaced in what it wrote.
func (m *platformMarshaler) Marshal(v any) ([]byte, error) {
	msg, ok := v.(proto.Message)
	if !ok {
		return m.marshaler.Marshal(v)
	}
	docs := takeDocuments(msg.ProtoReflect(), nil)
	raw, err := m.marshaler.Marshal(v)
	if err != nil || len(docs) == 0 {
		return raw, err
	}
	return putDocuments(raw, docs), nil
}

// takeDocuments replaces the documents in a message by their places in the list,
// which it answers.
func takeDocuments(m protoreflect.Message, docs [][]byte) [][]byte {
	if d, is := m.Interface().(*platformv1.Document); is {
		docs = append(docs, d.GetJson())
		d.Json = strconv.AppendInt(nil, int64(len(docs)-1), 10)
		return docs
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				docs = takeDocuments(v.List().Get(i).Message(), docs)
			}
		default:
			docs = takeDocuments(v.Message(), docs)
		}
		return true
	})
	return docs
}

// documentMark is a Document as protojson writes it. No text can look like it: its
// quotes would be escaped.
var documentMark = regexp.MustCompile(`\{\s*"json"\s*:\s*"([A-Za-z0-9+/=]+)"\s*\}`)

// putDocuments is the other way round.
func putDocuments(raw []byte, docs [][]byte) []byte {
	size := len(raw)
	for _, d := range docs {
		size += len(d)
	}
	out, from := make([]byte, 0, size), 0
	for _, at := range documentMark.FindAllSubmatchIndex(raw, -1) {
		number, err := base64.StdEncoding.AppendDecode(nil, raw[at[2]:at[3]])
		place, notNumber := strconv.Atoi(string(number))
		if err != nil || notNumber != nil || place >= len(docs) {
			continue // no document of ours
		}
		out = append(append(out, raw[from:at[0]]...), docs[place]...)
		from = at[1]
	}
	return append(out, raw[from:]...)
}

// NewDecoder reads a request body.
func (m *platformMarshaler) NewDecoder(r io.Reader) runtime.Decoder {
	usual := m.marshaler.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		raw, ok := v.(*[]byte)
		if !ok {
			return usual.Decode(v)
		}
		return readRaw(r, raw)
	})
}
