// Package api holds what the platform's subpackages share: the form of ids, the validation
// of request fields, and the conversion of values for responses. It owns no table.
package api

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
)

// NewID returns a random positive id below 2^47, which a JSON number (a double) represents
// exactly. Its highest bit is set, so that an id is never 0.
func NewID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:])>>17) | 1<<46
}

// letters lists the characters of text ids.
const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewTextID returns a random id of n letters and digits.
func NewTextID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return TextID(b)
}

// TextID maps each byte of b to a letter or digit.
func TextID(b []byte) string {
	id := make([]byte, len(b))
	for i, c := range b {
		id[i] = letters[int(c)%len(letters)]
	}
	return string(id)
}

// IsTextID reports whether s has the form of the id of credentials or of a run.
func IsTextID(s string) bool {
	return s != "" && len(s) <= 22 && strings.Trim(s, letters) == ""
}
