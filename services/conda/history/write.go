package history

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// ErrTooLarge is returned by Append for a block that exceeds its limits.
var ErrTooLarge = errors.New("the list changed more than its history may hold")

// A Limit bounds a block or a history: the number of changes, and their uncompressed length in
// bytes.
type Limit struct {
	Changes int
	Size    int64
}

func (l Limit) exceeded(changes int, size int64) bool { return changes > l.Changes || size > l.Size }

// Append writes a block after those in before, which To returned, and removes all others
// after them. write must call add with each change. The file is synced. If Append returns an
// error, the history ends with before.
func (h *File) Append(before []Block, b Block, most Limit, write func(add func(Change) error) error) (err error) {
	if h.file == nil {
		if h.file, err = os.OpenFile(h.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return fmt.Errorf("creating a history: %w", err)
		}
	}
	end := int64(0)
	if n := len(before); n > 0 {
		end = before[n-1].offset + before[n-1].length
	}
	st, err := h.file.Stat()
	if err == nil && st.Size() != end {
		err = h.file.Truncate(end)
	}
	if err != nil {
		return fmt.Errorf("writing a history: %w", err)
	}
	h.blocks = before[:len(before):len(before)]
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("writing a history: %w", err), h.file.Truncate(end))
		}
	}()
	b.offset = end + int64(headerSize)
	if err := h.payload(&b, most, write); err != nil {
		return err
	}
	head, err := b.appendHeader(nil)
	if err != nil {
		return err
	}
	if _, err := h.file.WriteAt(head, end); err != nil {
		return err
	}
	if err := h.file.Sync(); err != nil {
		return err
	}
	h.blocks = append(h.blocks, b)
	return nil
}

// payload writes the payload of a block at its offset. It sets the block's length, checksum,
// size and number of changes.
func (h *File) payload(b *Block, most Limit, write func(add func(Change) error) error) error {
	out := &summed{to: io.NewOffsetWriter(h.file, b.offset)}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fmt.Errorf("starting an encoder: %w", err)
	}
	var head []byte
	err = write(func(c Change) error {
		b.Changes++
		if b.Size += c.size(); most.exceeded(b.Changes, b.Size) {
			return ErrTooLarge
		}
		var err error
		if head, err = c.appendHead(head[:0]); err != nil {
			return err
		}
		for _, part := range [][]byte{head, c.Name, c.FileName, c.Raw} {
			if _, err := z.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, z.Close()); err != nil {
		return err
	}
	b.length, b.sum = out.size, out.sum
	return nil
}

// Clear removes all blocks.
func (h *File) Clear() error {
	h.blocks = nil
	return h.file.Truncate(0)
}

// A summed is a writer that computes the length and the checksum of the data.
type summed struct {
	to   io.Writer
	size int64
	sum  uint32
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.size += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, p[:n])
	return n, err
}

// Trim removes all blocks except keep, which must be the last blocks of the history. It does
// nothing if it would remove less than an eighth of the file. It replaces the file, so that
// readers of the previous file are not affected.
func (h *File) Trim(keep []Block) error {
	if len(h.blocks) == 0 {
		return nil
	}
	last := h.blocks[len(h.blocks)-1]
	if end := last.offset + last.length; len(keep) > 0 && 8*(keep[0].offset-int64(headerSize)) < end {
		return nil
	}
	next, err := os.CreateTemp(filepath.Dir(h.path), ".new-*")
	if err != nil {
		return fmt.Errorf("trimming a history: %w", err)
	}
	trimmed, at := make([]Block, 0, len(keep)), int64(0)
	for _, b := range keep {
		from := b.offset - int64(headerSize)
		if _, err = io.Copy(io.NewOffsetWriter(next, at), io.NewSectionReader(h.file, from, b.Disk())); err != nil {
			break
		}
		b.offset = at + int64(headerSize)
		at += b.Disk()
		trimmed = append(trimmed, b)
	}
	if err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(next.Name(), h.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("trimming a history: %w", err), next.Close(), os.Remove(next.Name()))
	}
	old := h.file
	h.file, h.blocks = next, trimmed
	return old.Close()
}

// Within returns as many of the last blocks as are within a limit together.
func Within(blocks []Block, most Limit) []Block {
	changes, size := 0, int64(0)
	for i := len(blocks) - 1; i >= 0; i-- {
		changes, size = changes+blocks[i].Changes, size+blocks[i].Size
		if most.exceeded(changes, size) {
			return blocks[i+1:]
		}
	}
	return blocks
}
