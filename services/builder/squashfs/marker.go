package squashfs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"

	"slipway.dev/services/builder/arena"
)

// A sum identifies content.
type sum [16]byte

// marker computes sums, so that equal contents are stored once. A sum is the authentication
// tag of AES-GCM for the content as additional data, without a plaintext. Two different
// contents of a block have the same sum with a probability below 2^-113, even if they were
// chosen to collide, because the key is random and only exists in this process. Images do
// not contain sums.
type marker struct{ aead cipher.AEAD }

func newMarker() marker {
	var key [16]byte
	_, _ = rand.Read(key[:])            // never fails
	block, err := aes.NewCipher(key[:]) // never fails for a key of this length
	aead, err2 := cipher.NewGCM(block)
	if err != nil || err2 != nil {
		panic("no AES-GCM")
	}
	return marker{aead}
}

// of returns the sum of a content.
func (m marker) of(content []byte) sum {
	var nonce [12]byte // a constant nonce is safe, since nothing is encrypted and sums are not disclosed
	var s sum
	m.aead.Seal(s[:0], nonce[:], nil, content)
	return s
}

// storedContent is a content that is stored. It holds no pointers.
type storedContent struct {
	sum sum
	at  uint64
}

// sums finds stored contents by sum.
type sums struct {
	table *arena.Table[storedContent]
	index *arena.Index
}

func newSums(memory *arena.Arena) *sums {
	s := &sums{table: arena.NewTable[storedContent](memory)}
	s.index = arena.NewIndex(memory, func(id uint32) uint64 { return s.table.At(id).sum.hash() })
	return s
}

// hash returns a part of the sum, which is random.
func (s sum) hash() uint64 { return binary.LittleEndian.Uint64(s[:]) }

// find returns the position of a content.
func (s *sums) find(of sum) (uint64, bool) {
	id, ok := s.index.Find(of.hash(), func(id uint32) bool { return s.table.At(id).sum == of })
	if !ok {
		return 0, false
	}
	return s.table.At(id).at, true
}

// add records the position of a content that find did not return.
func (s *sums) add(of sum, at uint64) error {
	id, k, err := s.table.Add()
	if err != nil {
		return err
	}
	*k = storedContent{of, at}
	return s.index.Add(of.hash(), id)
}
