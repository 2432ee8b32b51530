package sqldb

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"
)

// writers holds idle writers, because a new one needs 800 kB.
//
//nolint:gochecknoglobals // a cache of interchangeable values, safe for concurrent use
var writers sync.Pool // of *gzip.Writer

// Pack returns a message as it is stored in a column: compressed with gzip. It returns nil
// for a nil message.
func Pack(m proto.Message) ([]byte, error) {
	if !m.ProtoReflect().IsValid() {
		return nil, nil
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, _ := writers.Get().(*gzip.Writer)
	if w == nil {
		w = gzip.NewWriter(&out)
	}
	w.Reset(&out)
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	w.Reset(io.Discard) // it must not hold out in memory
	writers.Put(w)
	return out.Bytes(), err
}

// Unpack decodes a packed message into m. It returns an error if the message is longer than
// limit bytes.
func Unpack(packed []byte, limit int64, m proto.Message) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(raw)) > limit {
		return fmt.Errorf("the message has more than %d bytes", limit)
	}
	return proto.Unmarshal(raw, m)
}
