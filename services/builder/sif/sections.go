package sif

import (
	"io"

	"slipway.dev/services/builder/pieces"
	"slipway.dev/services/builder/squashfs"
)

// A Section is a range of an image: of the blocks of a part that other images have too, or of Own.
type Section struct {
	// Part is nil for a range of Own.
	Part *squashfs.Part
	// Offset is the position in the blocks of the part, or in Own, and Length the number of bytes.
	Offset, Length int64
}

// shortSection is the length in bytes below which a range of a part is in Own: its description is not
// much shorter.
const shortSection = 1 << 10

// Sections returns the image as ranges of parts and of a file that only this image has: its header and
// tables, and the parts of layers that are not stored. No bytes of equal blocks are in two sections.
func (f File) Sections() (sections []Section, own *pieces.File) {
	shared, first := map[io.ReaderAt]*squashfs.Part{}, map[[32]byte]*squashfs.Part{}
	for _, p := range f.parts {
		if p.shared {
			shared[p.File()] = p.Part
		}
	}
	own = &pieces.File{}
	f.Each(func(from io.ReaderAt, offset, length int64) {
		if p := shared[from]; p != nil && length >= shortSection {
			_, sum := p.Blocks()
			if first[sum] == nil {
				first[sum] = p
			}
			if first[sum] == p { // not another part with the same blocks
				sections = append(sections, Section{p, offset, length})
				return
			}
		}
		if n := len(sections); n > 0 && sections[n-1].Part == nil {
			sections[n-1].Length += length
		} else {
			sections = append(sections, Section{nil, own.Size(), length})
		}
		own.Append(from, offset, length)
	})
	return sections, own
}
