package ztoc

import (
	"crypto/sha256"
	"hash"

	"github.com/opencontainers/go-digest"
)

// spans computes the digests of the spans of a layer. The span of a checkpoint begins with
// the byte that has the first bit of its deflate block, and ends with the byte that has the
// last bit before the next checkpoint: two spans may share a byte.
type spans struct {
	digests []string
	current hash.Hash
}

// begin begins the first span.
func (s *spans) begin() { s.digests, s.current = nil, sha256.New() }

// Write adds bytes to the current span.
func (s *spans) Write(p []byte) (int, error) { return s.current.Write(p) }

// end ends the current span and begins the next, with the byte that both share, or nil.
func (s *spans) end(shared []byte) {
	s.digests = append(s.digests, digest.NewDigest(digest.SHA256, s.current).String())
	s.current.Reset()
	_, _ = s.current.Write(shared) // it returns no error
}
