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
// every member that has no presence; documents are JSON already; a body that a room
// wants as it came is not read here.
type platformMarshaler struct{ *marshaler }

func newPlatformMarshaler() *platformMarshaler {
	m := newMarshaler(jsonLimits{MaxPlatformValues, MaxDepth})
	m.MarshalOptions = protojson.MarshalOptions{EmitUnpopulated: true}
	return &platformMarshaler{m}
}

// Marshal writes a message. protojson cannot write JSON that is there already: it is
// given numbers in place of the documents, which are put into what it wrote.
func (m *platformMarshaler) Marshal(v any) ([]byte, error) {
	msg, ok := v.(proto.Message)
	if !ok {
		return m.marshaler.Marshal(v)
	}
	docs := documentsIn(msg.ProtoReflect(), nil)
	texts := make([][]byte, len(docs))
	for i, d := range docs {
		texts[i], d.Json = d.GetJson(), strconv.AppendInt(nil, int64(i), 10)
	}
	raw, err := m.marshaler.Marshal(v)
	for i, d := range docs {
		d.Json = texts[i]
	}
	if err != nil || len(docs) == 0 {
		return raw, err
	}
	return putDocuments(raw, texts), nil
}

// documentsIn adds the documents in a message.
func documentsIn(m protoreflect.Message, docs []*platformv1.Document) []*platformv1.Document {
	if d, is := m.Interface().(*platformv1.Document); is {
		return append(docs, d)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				docs = documentsIn(v.List().Get(i).Message(), docs)
			}
		default:
			docs = documentsIn(v.Message(), docs)
		}
		return true
	})
	return docs
}

// documentMark is a Document as protojson writes it. No text looks like it: its
// quotes are escaped. A Struct may: none is filled beside documents.
var documentMark = regexp.MustCompile(`\{\s*"json"\s*:\s*"([A-Za-z0-9+/=]+)"\s*\}`)

// putDocuments replaces the numbers by the documents.
func putDocuments(raw []byte, texts [][]byte) []byte {
	size := len(raw)
	for _, text := range texts {
		size += len(text)
	}
	out, from := make([]byte, 0, size), 0
	for _, at := range documentMark.FindAllSubmatchIndex(raw, -1) {
		number, err := base64.StdEncoding.AppendDecode(nil, raw[at[2]:at[3]])
		i, isNone := strconv.ParseUint(string(number), 10, 32)
		if err != nil || isNone != nil || i >= uint64(len(texts)) {
			continue
		}
		out = append(append(out, raw[from:at[0]]...), texts[i]...)
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
		return m.readRaw(r, raw)
	})
}
