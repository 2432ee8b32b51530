package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	goruntime "runtime"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"
)

// marshaler implements the contract's JSON: fields with presence are omitted if unset,
// unknown members are ignored, and errors have our own messages.
type marshaler struct {
	runtime.JSONPb
	limits jsonLimits
	// turns has one slot for each processor. Encoding takes memory of several times the
	// length of the JSON, and more concurrent encodings would not be faster.
	turns chan struct{}
}

func newMarshaler(l jsonLimits) *marshaler {
	return &marshaler{
		runtime.JSONPb{UnmarshalOptions: protojson.UnmarshalOptions{DiscardUnknown: true}}, l,
		make(chan struct{}, goruntime.GOMAXPROCS(0)),
	}
}

// Marshal encodes a message. A message without any fields has an empty body, and a response in
// a text format is returned as it is.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	if text, _ := textOf(v); text != nil {
		return []byte(*text), nil
	}
	msg, ok := v.(proto.Message)
	if ok && msg.ProtoReflect().Descriptor().Fields().Len() == 0 {
		return nil, nil
	}
	m.turns <- struct{}{}
	defer func() { <-m.turns }()
	if !ok {
		return m.JSONPb.Marshal(v)
	}
	how := m.MarshalOptions
	if c, ok := v.(counted); ok && c.GetMetric() != "" {
		how.EmitUnpopulated = true
	}
	// JSON is a little longer than the message. A growing buffer that is copied at the end
	// would take several times as much memory.
	return how.MarshalAppend(make([]byte, 0, proto.Size(msg)*5/4), msg)
}

// textOf returns the text and the media type of a response in a text format: a lock, a bill of
// materials, or a report as CSV. The text is nil for any other message.
func textOf(v any) (text *string, mediaType string) {
	switch m := v.(type) {
	case *condav1.LockPackagesResponse:
		return m.Text, "text/plain; charset=utf-8"
	case *buildv1.GetBuildLockResponse:
		return m.Text, "text/plain; charset=utf-8"
	case *inspectv1.GetImageSBOMResponse:
		return m.Document, m.GetMediaType()
	case *containerv1.GetScanSpdxResponse:
		return m.Document, m.GetMediaType()
	case *containerv1.GetScanCycloneDxResponse:
		return m.Document, m.GetMediaType()
	case *usagev1.GetUsageResponse:
		return m.Csv, "text/csv; charset=utf-8; header=present"
	case *usagev1.GetUserUsageResponse:
		return m.Csv, "text/csv; charset=utf-8; header=present"
	}
	return nil, ""
}

// counted is a response of the metrics service. If it has a metric, its organisations are
// included even if there are no counts.
type counted interface {
	GetMetric() string
	GetOrgs() map[string]float64
}

// ContentType returns the type of JSON, or that of a response in a text format.
func (m *marshaler) ContentType(v any) string {
	if text, mediaType := textOf(v); text != nil {
		return mediaType
	}
	return m.JSONPb.ContentType(v)
}

// NewDecoder reads a request body.
func (m *marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		if body, ok := r.(*readBody); ok {
			defer body.decoded()
		}
		var raw []byte
		if err := m.readRaw(r, &raw); err != nil {
			return err
		}
		if err := m.decode(raw, v); err != nil {
			return errors.New(explain(raw, v))
		}
		return nil
	})
}

// decode decodes a body into a message, or into the pointer to a message that generated code
// passes for a field. runtime.JSONPb would scan the body twice more.
func (m *marshaler) decode(raw []byte, v any) error {
	msg, ok := v.(proto.Message)
	if !ok {
		field := reflect.ValueOf(v)
		if field.Kind() != reflect.Pointer || field.Elem().Kind() != reflect.Pointer {
			return fmt.Errorf("no message: %T", v)
		}
		made := reflect.New(field.Elem().Type().Elem())
		if msg, ok = made.Interface().(proto.Message); !ok {
			return fmt.Errorf("no message: %T", v)
		}
		field.Elem().Set(made)
	}
	return m.UnmarshalOptions.Unmarshal(raw, msg)
}

// readRaw reads a body unchanged and checks the limits. It returns io.EOF for an empty body.
func (m *marshaler) readRaw(r io.Reader, into *[]byte) error {
	raw, err := readAll(r)
	if errors.As(err, new(*http.MaxBytesError)) {
		return errors.New(tooLarge)
	}
	if err != nil {
		return errors.New("The request body could not be read")
	}
	if len(raw) == 0 {
		return io.EOF
	}
	*into = raw
	return m.limits.check(raw)
}

// readAll reads a body, or returns one that has already been read.
func readAll(r io.Reader) ([]byte, error) {
	if b, ok := r.(*readBody); ok {
		return b.take()
	}
	return io.ReadAll(r)
}
