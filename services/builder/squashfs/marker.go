package squashfs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
)

// sum tells contents apart.
type sum [16]byte

// marker makes sums, by which contents that are the same are stored once. A sum is
// the tag that AES-GCM gives a text which it only authenticates. Two different
// contents of a block have the same with a probability below 2^-113, whatever they
// are: the key is random, and leaves with the process. Sums are in no image.
type marker struct{ aead cipher.AEAD }

func newMarker() marker {
	var key [16]byte
	_, _ = rand.Read(key[:])            // it never fails
	block, err := aes.NewCipher(key[:]) // nor do these, for such a key
	aead, err2 := cipher.NewGCM(block)
	if err != nil || err2 != nil {
		panic("no AES-GCM")
	}
	return marker{aead}
}

// of is the sum of a content.
func (m marker) of(content []byte) sum {
	var nonce [12]byte // always the same: nothing is kept secret, and no sum is shown
	var s sum
	m.aead.Seal(s[:0], nonce[:], nil, content)
	return s
}

// join is the sum of a list, from that of the list without its last block.
func (m marker) join(list, last sum, word uint32) sum {
	var all [2*len(sum{}) + 4]byte
	copy(all[:], list[:])
	copy(all[len(list):], last[:])
	binary.LittleEndian.PutUint32(all[2*len(list):], word)
	return m.of(all[:])
}
