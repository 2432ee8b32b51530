package oci

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// TypeComposition is the media type of a Composition. The embedded image store accepts a composition
// instead of the content of an upload: PATCH sends the document, and PUT has this type as its query
// parameter mediaType.
const TypeComposition = "application/vnd.slipway.composition.v1+json"

// A Composition describes a blob that consists of ranges of other blobs of the same repository, which
// are stored once for all blobs that use them.
type Composition struct {
	MediaType string  `json:"mediaType"`
	Pieces    []Piece `json:"pieces"`
}

// A Piece is a range of an ordinary blob. Offset and Length are in bytes.
type Piece struct {
	Digest digest.Digest `json:"digest"`
	Offset int64         `json:"offset"`
	Length int64         `json:"length"`
}

// Size returns the length of the composed blob in bytes.
func (c Composition) Size() (sum int64) {
	for _, p := range c.Pieces {
		sum += p.Length
	}
	return sum
}

// Blobs returns the digests of the blobs that the composition uses, each once and with the position
// behind its last byte that is used.
func (c Composition) Blobs() map[digest.Digest]int64 {
	out := map[digest.Digest]int64{}
	for _, p := range c.Pieces {
		out[p.Digest] = max(out[p.Digest], p.Offset+p.Length)
	}
	return out
}

var errPieces = fmt.Errorf("a composition has 1 to %d pieces", limits.CompositionPieces)

// commas is the number of commas in the document of the longest list of pieces, whose members have no
// commas in their values.
const commas = 3 * limits.CompositionPieces

// ParseComposition parses a composition and verifies everything that does not depend on the blobs. No
// byte of a blob is used twice, so that a composition is never longer than its blobs together.
func ParseComposition(raw []byte) (Composition, error) {
	var c Composition
	if len(raw) > limits.Composition {
		return c, errors.New("the composition is too large")
	}
	if bytes.Count(raw, []byte(",")) > commas { // decoded, short pieces take many times as much memory
		return c, errPieces
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	if err := in.Decode(&c); err != nil {
		return Composition{}, fmt.Errorf("the composition is malformed: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return Composition{}, errors.New("the composition has more than one document")
	}
	return c, c.validate()
}

func (c Composition) validate() error {
	if c.MediaType != TypeComposition {
		return errors.New("the composition has another media type")
	}
	if len(c.Pieces) == 0 || len(c.Pieces) > limits.CompositionPieces {
		return errPieces
	}
	left := int64(limits.ComposedBlob)
	for _, p := range c.Pieces {
		if p.Digest.Validate() != nil {
			return errors.New("a piece has a malformed digest")
		}
		if p.Offset < 0 || p.Length < 1 || p.Offset > limits.ComposedBlob || p.Length > left {
			return errors.New("a piece is empty or too long, or starts at an invalid position")
		}
		left -= p.Length
	}
	sorted := slices.SortedFunc(slices.Values(c.Pieces), func(a, b Piece) int {
		return cmp.Or(cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Offset, b.Offset))
	})
	for i, p := range sorted[1:] {
		if before := sorted[i]; before.Digest == p.Digest && before.Offset+before.Length > p.Offset {
			return errors.New("two pieces have bytes in common")
		}
	}
	return nil
}
