// Package history stores how a channel's package list changed, so that earlier states of the
// list can be reconstructed.
//
// A history is a file of blocks, oldest first. Each block describes one refresh: the earlier
// content of every record that was changed or removed, and the names of the records that were
// added. To reconstruct the state at a time, the blocks after that time are applied to the
// present state, newest first. Blocks form a chain: each names the digests of both states.
// Blocks that are damaged or do not lead to the present state are ignored, and the history then
// begins after them. The index of the present state is authoritative.
package history

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// The header of a block; all numbers are little endian:
//
//	magic, u64 length of the payload, u64 its uncompressed length, u32 number of changes,
//	CRC-32C of the payload, Since, Until and At in milliseconds, SHA-256 of both states,
//	CRC-32C of the header
//
// The payload is a zstd frame of changes; see readChanges.
const (
	magic      = "slipway\x01"
	headerSize = len(magic) + 8 + 8 + 4 + 4 + 3*8 + 2*digestSize + 4
	digestSize = 32
)

// ErrDamaged is returned for a block whose content differs from what was written.
var ErrDamaged = errors.New("the history is damaged")

//nolint:gochecknoglobals // a table of constants
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Block describes one refresh of a list.
type Block struct {
	// Before and After are the snapshots of the earlier and the later state, "sha256:<hex>".
	Before, After string
	// Since is when the earlier state was fetched, Until when the channel last confirmed it,
	// and At when the later state was fetched. They are stored in milliseconds.
	Since, Until, At time.Time
	// Changes is the number of changes. Size is their uncompressed length in bytes.
	Changes int
	Size    int64
	// offset and length are the position of the payload in the file, and sum its checksum.
	offset, length int64
	sum            uint32
}

// Disk returns the size of a block on disk in bytes.
func (b Block) Disk() int64 { return int64(headerSize) + b.length }

func (b Block) appendHeader(out []byte) ([]byte, error) {
	from := len(out)
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint64(out, uint64(b.length))
	out = binary.LittleEndian.AppendUint64(out, uint64(b.Size))
	out = binary.LittleEndian.AppendUint32(out, uint32(b.Changes))
	out = binary.LittleEndian.AppendUint32(out, b.sum)
	for _, t := range []time.Time{b.Since, b.Until, b.At} {
		out = binary.LittleEndian.AppendUint64(out, uint64(t.UnixMilli()))
	}
	for _, snapshot := range []string{b.Before, b.After} {
		raw, err := hex.DecodeString(strings.TrimPrefix(snapshot, "sha256:"))
		if err != nil || len(raw) != digestSize {
			return nil, fmt.Errorf("the snapshot %q is not a SHA-256", snapshot)
		}
		out = append(out, raw...)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out[from:], castagnoli)), nil
}

// parseHeader parses the header at offset at of a file of size bytes. It reports whether raw
// is a valid header and the payload is within the file.
func parseHeader(raw []byte, at, size int64) (b Block, ok bool) {
	end := headerSize - 4
	if string(raw[:len(magic)]) != magic || crc32.Checksum(raw[:end], castagnoli) != binary.LittleEndian.Uint32(raw[end:]) {
		return b, false
	}
	raw = raw[len(magic):]
	number := func(i int) int64 { return int64(binary.LittleEndian.Uint64(raw[i:])) }
	b.length, b.Size, b.Changes, b.sum = number(0), number(8), int(binary.LittleEndian.Uint32(raw[16:])), binary.LittleEndian.Uint32(raw[20:])
	b.Since, b.Until, b.At = time.UnixMilli(number(24)).UTC(), time.UnixMilli(number(32)).UTC(), time.UnixMilli(number(40)).UTC()
	b.Before, b.After = "sha256:"+hex.EncodeToString(raw[48:48+digestSize]), "sha256:"+hex.EncodeToString(raw[48+digestSize:48+2*digestSize])
	b.offset = at + int64(headerSize)
	return b, b.length >= 0 && b.Size >= 0 && b.length <= size-b.offset
}

// A File is an open history. The caller must close it. A File must not be used concurrently,
// but several Files may read the same path while one of them is written.
type File struct {
	path   string
	file   *os.File
	blocks []Block
}

// Open reads the headers of a history. A missing file is an empty history; Append creates it.
func Open(path string) (*File, error) {
	h := &File{path: path}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening a history: %w", err)
	}
	h.file = f
	if err := h.scan(); err != nil {
		return nil, errors.Join(fmt.Errorf("reading a history: %w", err), f.Close())
	}
	return h, nil
}

// Close releases the file.
func (h *File) Close() error {
	if h.file == nil {
		return nil
	}
	return h.file.Close()
}

// scan finds the last unbroken chain of blocks. After a damaged header it continues at the
// next valid one.
func (h *File) scan() error {
	st, err := h.file.Stat()
	if err != nil {
		return err
	}
	raw := make([]byte, headerSize)
	for at := int64(0); at+int64(headerSize) <= st.Size(); {
		if _, err := h.file.ReadAt(raw, at); err != nil {
			return err
		}
		b, ok := parseHeader(raw, at, st.Size())
		if !ok {
			if at, err = h.next(at+1, st.Size()); err != nil {
				return err
			}
			continue
		}
		if n := len(h.blocks); n > 0 && h.blocks[n-1].After != b.Before {
			h.blocks = nil
		}
		h.blocks = append(h.blocks, b)
		at = b.offset + b.length
	}
	return nil
}

// next returns the offset of the next magic number in a file of size bytes, or size.
func (h *File) next(from, size int64) (int64, error) {
	window := make([]byte, 64<<10)
	for from < size {
		n, err := h.file.ReadAt(window[:min(int64(len(window)), size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := strings.Index(string(window[:n]), magic); i >= 0 {
			return from + int64(i), nil
		}
		if n < len(magic) {
			return size, nil
		}
		from += int64(n - len(magic) + 1)
	}
	return size, nil
}

// To returns the blocks that lead to a state, oldest first. Later blocks belong to a refresh
// that was not completed, or that the caller has not loaded yet. It returns none if the
// history does not have the state.
func (h *File) To(snapshot string) []Block {
	for i := len(h.blocks) - 1; i >= 0; i-- {
		if h.blocks[i].After == snapshot {
			return h.blocks[:i+1]
		}
	}
	return nil
}

// Find returns the block of h that equals b, a block of another File of the same path. Its
// position may differ, since Trim moves blocks.
func (h *File) Find(b Block) (Block, bool) {
	i := slices.IndexFunc(h.blocks, b.Equal)
	if i < 0 {
		return Block{}, false
	}
	return h.blocks[i], true
}

// Equal reports whether two blocks describe the same refresh, wherever they are stored.
func (b Block) Equal(o Block) bool {
	b.offset, o.offset = 0, 0
	return b == o
}
