package ztoc

import (
	"errors"
	"reflect"

	"github.com/klauspost/compress/gzip"
)

// encoder reads the state of the compressor. The compressor does not export it, and a
// decompressor that finds the same positions takes a third of the time of the compression.
// The fields are only read. A version of the compressor without them is an error, and tests
// compare the result with that of the decompressor.
type encoder struct {
	gz   *gzip.Writer
	bits reflect.Value // of the type huffmanBitWriter
}

var errEncoder = errors.New("the version of klauspost/compress is not supported")

// boundary returns the position in the stream, of which length bytes are written.
func (e *encoder) boundary(length int64) (b boundary, err error) {
	defer func() {
		if recover() != nil { // reflect panics if a field has another type
			err = errEncoder
		}
	}()
	if !e.bits.IsValid() {
		e.bits = reflect.ValueOf(e.gz).Elem().FieldByName("compressor").Elem().FieldByName("d").FieldByName("w").Elem()
	}
	// The bytes and bits that are not written yet.
	b.position = (length+int64(e.bits.FieldByName("nbytes").Uint()))*8 + int64(e.bits.FieldByName("nbits").Uint())
	// The block has no end yet if its header has a size.
	if b.isOpen = e.bits.FieldByName("lastHeader").Int() > 0; b.isOpen {
		const endOfBlock = 256
		code := e.bits.FieldByName("literalEncoding").Elem().FieldByName("codes").Index(endOfBlock).Uint()
		b.length, b.code = uint8(code&0xff), uint32(code>>8)
		if b.length == 0 {
			err = errEncoder
		}
	}
	return b, err
}
