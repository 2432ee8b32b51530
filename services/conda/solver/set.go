package solver

import (
	"iter"
	"math/bits"
)

// A set is an ordered set of small numbers.
type set []uint64

// put adds n, or removes it if in is false. It ignores -1.
func (s *set) put(n int32, in bool) {
	if n < 0 {
		return
	}
	for int(n/64) >= len(*s) {
		*s = append(*s, 0)
	}
	if in {
		(*s)[n/64] |= 1 << (n % 64)
	} else {
		(*s)[n/64] &^= 1 << (n % 64)
	}
}

// all returns the members in ascending order.
func (s *set) all() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i, word := range *s {
			for ; word != 0; word &= word - 1 {
				if !yield(int32(i*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
