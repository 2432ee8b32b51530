package history

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/limits"
)

// A Change is a record that differs between two states. Its slices are only valid during the
// call that receives it.
type Change struct {
	// Name is the package name, and FileName the file name of its artifact.
	Name, FileName []byte
	// Raw is the JSON of the record in the earlier state; empty if that state did not have
	// it.
	Raw []byte
}

// changeHead is the length of the head of a change: u8 length of the name, u8 length of the
// file name, u32 length of the JSON. The name, the file name and the JSON follow.
const changeHead = 1 + 1 + 4

func (c Change) size() int64 {
	return int64(changeHead + len(c.Name) + len(c.FileName) + len(c.Raw))
}

func (c Change) appendHead(out []byte) ([]byte, error) {
	if len(c.Name) > math.MaxUint8 || len(c.FileName) > math.MaxUint8 || len(c.Raw) > limits.ChannelRecord {
		return nil, fmt.Errorf("the record %.300q is too large for a history", c.FileName)
	}
	out = append(out, byte(len(c.Name)), byte(len(c.FileName)))
	return binary.LittleEndian.AppendUint32(out, uint32(len(c.Raw))), nil
}

// Changes calls each with the changes of a block of this file, in the order in which they
// were appended. It verifies the checksum first, and returns ErrDamaged for a block that
// differs from what was written.
func (h *File) Changes(b Block, each func(Change) error) error {
	payload := io.NewSectionReader(h.file, b.offset, b.length)
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, payload); err != nil {
		return fmt.Errorf("reading a history: %w", err)
	}
	if sum.Sum32() != b.sum {
		return fmt.Errorf("%w: the block of %s has another checksum", ErrDamaged, b.At)
	}
	if _, err := payload.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := zstd.NewReader(payload, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(limits.ChannelWindow))
	if err != nil {
		return fmt.Errorf("starting a decoder: %w", err)
	}
	defer z.Close()
	return readChanges(z, b, each)
}

// readChanges reads the uncompressed payload of a block, which has exactly the length and the
// number of changes that the header states.
func readChanges(r io.Reader, b Block, each func(Change) error) error {
	damaged := func(err error) error { return fmt.Errorf("%w: the block of %s: %w", ErrDamaged, b.At, err) }
	in := bufio.NewReader(&io.LimitedReader{R: r, N: b.Size + 1})
	left := b.Size
	var head [changeHead]byte
	var buf []byte
	for n := 0; ; n++ {
		_, err := io.ReadFull(in, head[:])
		if errors.Is(err, io.EOF) {
			if n != b.Changes || left != 0 {
				return damaged(errors.New("it has another number of changes"))
			}
			return nil
		}
		if err != nil {
			return damaged(err)
		}
		name, file, raw := int(head[0]), int(head[1]), int64(binary.LittleEndian.Uint32(head[2:]))
		size := int64(name+file) + raw
		if left -= changeHead + size; left < 0 || raw > limits.ChannelRecord {
			return damaged(errors.New("a change is too long"))
		}
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if _, err := io.ReadFull(in, buf); err != nil {
			return damaged(err)
		}
		if err := each(Change{Name: buf[:name], FileName: buf[name : name+file], Raw: buf[name+file:]}); err != nil {
			return err
		}
	}
}
