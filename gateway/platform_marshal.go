package gateway

import (
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
)

// platformMarshaler is the platform's JSON: lists are always there, and so is
// every member that has no presence; a body that a room wants as it came is not
// read here.
type platformMarshaler struct{ *marshaler }

func newPlatformMarshaler() *platformMarshaler {
	m := newMarshaler()
	m.MarshalOptions = protojson.MarshalOptions{EmitUnpopulated: true}
	return &platformMarshaler{m}
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
