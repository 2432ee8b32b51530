package container

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// unpacking is what one request may still have uncompressed. A few bytes of gzip stand
// for a thousand times as many.
type unpacking struct {
	// turns are shared by all requests: one for each that may be at it.
	turns chan struct{}
	left  int64
}

var errUnpacked = errors.New("too much of it uncompressed")

// tarDigest is that of the uncompressed content. It waits for its turn, and ends with
// ctx.
func (u *unpacking) tarDigest(ctx context.Context, gz []byte) (digest.Digest, error) {
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
