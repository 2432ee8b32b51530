package ztoc

import "math/bits"

// A table decodes a Huffman code. It is indexed with the next tableBits bits. An entry is a
// symbol or, for longer codes, the place of a second table for the following bits.
//
// Bits 0-3 of an entry are the length of the code, or, in an entry for a second table, the
// number of bits that index it; bit 4 marks the latter, and the other bits are the symbol or
// the place. An entry of 0 belongs to no code.
type table struct {
	entries []uint32
	lengths [16]int32
	next    [16]uint32
}

const (
	maxCode   = 15 // maximum length of a code
	tableBits = 10
	tableMask = 1<<tableBits - 1
	isSecond  = 1 << 4
	symbolAt  = 5
)

// build builds the table for codes of the given lengths. As in zlib, a code must be complete,
// with the exception of a code with one symbol of length 1 if single is set, and of one
// without symbols. It returns false for an invalid code.
func (t *table) build(lengths []uint8, single bool) bool {
	clear(t.lengths[:])
	longest := 0
	for _, n := range lengths {
		t.lengths[n]++
		longest = max(longest, int(n))
	}
	t.lengths[0] = 0
	left, code := int32(1), uint32(0)
	for n := 1; n <= maxCode; n++ {
		code = (code + uint32(t.lengths[n-1])) << 1
		t.next[n] = code
		if left = left<<1 - t.lengths[n]; left < 0 {
			return false
		}
	}
	if left > 0 && longest != 0 && (!single || longest != 1) {
		return false
	}
	if cap(t.entries) == 0 {
		t.entries = make([]uint32, 1<<tableBits, 4<<tableBits)
	}
	t.entries = t.entries[:1<<tableBits]
	clear(t.entries)
	for symbol, n := range lengths {
		if n == 0 {
			continue
		}
		reversed := uint32(bits.Reverse16(uint16(t.next[n])) >> (16 - n))
		t.next[n]++
		t.add(uint32(symbol), uint32(n), reversed, uint32(longest))
	}
	return true
}

// add adds the code of a symbol.
func (t *table) add(symbol, length, code, longest uint32) {
	at, width := uint32(0), uint32(tableBits)
	if length > tableBits {
		first := code & tableMask
		width = longest - tableBits
		if t.entries[first] == 0 {
			t.entries[first] = uint32(len(t.entries))<<symbolAt | isSecond | width
			for range 1 << width {
				t.entries = append(t.entries, 0)
			}
		}
		at = t.entries[first] >> symbolAt
		code >>= tableBits
	}
	entry := symbol<<symbolAt | length
	if length > tableBits {
		length -= tableBits
	}
	for i := code; i < 1<<width; i += 1 << length {
		t.entries[at+i] = entry
	}
}
