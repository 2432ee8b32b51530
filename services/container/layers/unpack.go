package layers

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// Unpacking is what one request may still have uncompressed. A few bytes of gzip stand
// for a thousand times as many.
type Unpacking struct {
	// turns are shared by all requests: one for each that may be at it.
	turns chan struct{}
	left  int64
}

var errUnpacked = errors.New("too much of it uncompressed")

// NewUnpacking is what one request may have uncompressed; who may do so at a time takes a
// place in turns.
func NewUnpacking(turns chan struct{}) *Unpacking {
	return &Unpacking{turns: turns, left: limits.LayersExpanded}
}

// Spent is how many bytes were uncompressed.
func (u *Unpacking) Spent() int64 { return limits.LayersExpanded - u.left }

// tarDigest is that of the uncompressed content. It waits for its turn, and ends with
// ctx.
func (u *Unpacking) tarDigest(ctx context.Context, gz []byte) (digest.Digest, error) {
	select {
	case u.turns <- struct{}{}:
		defer func() { <-u.turns }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return "", err
	}
	h := digest.SHA256.Digester()
	most := min(u.left, limits.LayerFloor+limits.LayerRatio*int64(len(gz)))
	n, err := io.Copy(h.Hash(), &untilDone{ctx, io.LimitReader(z, most+1)})
	if u.left -= n; n > most {
		err = errUnpacked
	}
	if err != nil {
		return "", err
	}
	return h.Digest(), nil
}

// untilDone ends with its context.
type untilDone struct {
	ctx context.Context //nolint:containedctx // io.Copy takes none
	r   io.Reader
}

// Read implements io.Reader.
func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
