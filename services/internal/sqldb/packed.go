package sqldb

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Pack is a large message as a column holds it; nil for one that is not there.
func Pack(m proto.Message) ([]byte, error) {
	if !m.ProtoReflect().IsValid() {
		return nil, nil
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// Unpack reads a packed message of at most so many bytes into m.
func Unpack(packed []byte, most int64, m proto.Message) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return err
	}
	if int64(len(raw)) > most {
		return fmt.Errorf("it has more than %d bytes", most)
	}
	return proto.Unmarshal(raw, m)
}
