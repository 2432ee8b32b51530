// Package api is what all nouns of the platform's API share: how their ids look, how
// requests are checked, and how instants, ids and texts are shown. It owns no table.
package api

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
)

// NewID makes an id that nobody has: 47 random bits, so that JSON readers with
// doubles keep it whole.
func NewID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.BigEndian.Uint64(b[:])>>17) | 1<<46
}

// letters are what text ids are made of.
const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewTextID makes an id of n letters and digits.
func NewTextID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return TextID(b)
}

// TextID spells bytes as letters and digits, one for each.
func TextID(b []byte) string {
	id := make([]byte, len(b))
	for i, c := range b {
		id[i] = letters[int(c)%len(letters)]
	}
	return string(id)
}

// IsTextID says whether s can be the id of credentials or of a run.
func IsTextID(s string) bool {
	return s != "" && len(s) <= 22 && strings.Trim(s, letters) == ""
}
