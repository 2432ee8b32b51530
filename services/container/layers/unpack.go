package layers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// An Unpacking is the remaining budget of one request for uncompressed data, since a few
// bytes of gzip can expand to a thousand times as many.
type Unpacking struct {
	turns  fairshare.Turns
	client fairshare.Client
	left   int64
}

var errUnpacked = errors.New("too much of it uncompressed")

// NewUnpacking returns the budget of a request. Each layer is uncompressed in a turn of the
// client.
func NewUnpacking(turns fairshare.Turns, client fairshare.Client) *Unpacking {
	return &Unpacking{turns: turns, client: client, left: limits.LayersExpanded}
}

// Unpacked returns the number of uncompressed bytes.
func (u *Unpacking) Unpacked() int64 { return limits.LayersExpanded - u.left }

// tarDigest returns the digest of the uncompressed content. It waits for its turn, and ends
// with ctx.
func (u *Unpacking) tarDigest(ctx context.Context, gz []byte) (digest.Digest, error) {
	turn, err := u.turns.Acquire(ctx, fairshare.Request{Client: u.client})
	if err != nil {
		return "", err
	}
	defer turn.Release()
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

// An untilDone is a reader that ends with its context.
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

// CheckNames rejects a gzipped tar with names that are not UTF-8, because they cannot be
// passed to the build engine. The tar has been uncompressed before within the limits; the
// build reports other problems with it.
func (u *Unpacking) CheckNames(ctx context.Context, field string, gz []byte) error {
	turn, err := u.turns.Acquire(ctx, fairshare.Request{Client: u.client})
	if err != nil {
		return err
	}
	defer turn.Release()
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil
	}
	for in := tar.NewReader(&untilDone{ctx, z}); ; {
		h, err := in.Next()
		if err != nil {
			return ctx.Err()
		}
		if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
			return fault.Invalid.Newf("%s has a file whose name is not UTF-8: %s; rename it", field, fault.Quote(h.Name))
		}
	}
}
