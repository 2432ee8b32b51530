package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// The files of a channel, in the order in which they are requested.
const (
	shardsFile = "repodata_shards.msgpack.zst"
	zstdFile   = "repodata.json.zst"
	jsonFile   = "repodata.json"
)

// A fetch is one attempt to update an index.
type fetch struct {
	store  *Store
	access Access
	// channel is the URL of the channel. base is that URL or the URL of a mirror.
	channel, base string
	subdir        string
	path          string
	// known is the existing index; nil for none.
	known *index.Index
	// most is the maximum uncompressed size of the list, in bytes.
	most int64
	// fresh is how long the response is valid according to the channel.
	fresh time.Duration
}

// run updates the file at path. It returns nil if the file was replaced, errUnchanged if it
// is up to date, and errAbsent if the channel has nothing for the platform.
func (f *fetch) run(ctx context.Context) error {
	err := f.shards(ctx)
	switch {
	case err == nil, errors.Is(err, errUnchanged), errors.Is(err, fault.Exhausted), errors.Is(err, fault.Invalid), ctx.Err() != nil:
		return err
	case !isMissing(err):
		f.store.log.Warn("A channel's shards cannot be used; its whole list is fetched", "channel", f.base, "subdir", f.subdir, "err", err)
	}
	if err = f.whole(ctx, zstdFile); isMissing(err) {
		err = f.whole(ctx, jsonFile)
	}
	return err
}

// isMissing reports whether the channel may have another file instead. Object stores also
// respond with 403 for missing files.
func isMissing(err error) bool { return errors.Is(err, errAbsent) || errors.Is(err, fault.Denied) }

// validatorsOf returns the validators of the existing index if it was built from that file.
func (f *fetch) validatorsOf(file string) index.Meta {
	if f.known == nil || f.known.Meta().Source != file {
		return index.Meta{}
	}
	return f.known.Meta()
}

// whole builds the index from one file that contains all records.
func (f *fetch) whole(ctx context.Context, file string) error {
	resp, err := f.request(ctx, folder(f.base, f.subdir)+file, f.validatorsOf(file))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	f.fresh = maxAge(resp.Header)
	m := index.Meta{Source: file, Fetched: f.store.now().UTC()}
	validators(&m, resp.Header)
	body := &summed{from: &bounded{resp.Body, limits.ChannelDownload}, hash: sha256.New()}
	text, done, err := opened(file, body, f.most)
	if err != nil {
		return err
	}
	defer done()
	_, err = index.Build(f.path, text, m, func(m *index.Meta) error {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return readError(err)
		}
		m.Snapshot = "sha256:" + hex.EncodeToString(body.hash.Sum(nil))
		return nil
	})
	return readError(err)
}

// opened returns the decompressed content of a file, up to most bytes.
func opened(file string, body *summed, most int64) (io.Reader, func(), error) {
	if file != zstdFile {
		return &inflated{from: body, packed: &body.size, most: most}, func() {}, nil
	}
	z, err := zstd.NewReader(body, zstd.WithDecoderMaxWindow(limits.ChannelWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, fmt.Errorf("starting a decoder: %w", err)
	}
	return &inflated{from: z, packed: &body.size, most: most}, z.Close, nil
}

// An inflated is a decompressed stream whose length and compression ratio are limited, so
// that a small download does not take minutes to process.
type inflated struct {
	from   io.Reader
	packed *atomic.Int64
	size   int64
	most   int64
}

// Read implements io.Reader.
func (f *inflated) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	f.size += int64(n)
	switch {
	case f.size > f.most:
		return 0, fault.Unavailable.Newf("The channel's list of packages has more than %d bytes, uncompressed", f.most)
	case f.size > limits.ChannelInflated+limits.ChannelRatio*f.packed.Load():
		return 0, fault.Unavailable.Newf("The channel's list of packages expands to more than %d times its download size", limits.ChannelRatio)
	}
	return n, err
}

// readError returns the error for a file that could not be read to its end.
func readError(err error) error {
	if err == nil || errors.As(err, new(*fault.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.Unavailable.New("The channel's list of packages could not be read", err)
}

// A summed computes the digest and the length of a stream while it is read.
type summed struct {
	from io.Reader
	hash hash.Hash
	size atomic.Int64
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.hash.Write(p[:n])
	s.size.Add(int64(n))
	return n, err
}

// all reads a small file completely.
func all(resp *http.Response, most int64) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return raw, readError(err)
}
