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
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// The files of a channel, in the order in which they are asked for.
const (
	shardsFile = "repodata_shards.msgpack.zst"
	zstdFile   = "repodata.json.zst"
	jsonFile   = "repodata.json"
)

// fetch is one try to bring an index up to date.
type fetch struct {
	store  *Store
	access Access
	// channel is its URL, base that or a mirror's.
	channel, base string
	subdir        string
	path          string
	// known is the index that there is; nil for none.
	known *index.Index
	// fresh is for how long the channel says that its answer is good.
	fresh time.Duration
}

// run brings the file at path up to date. nil when it was replaced; errUnchanged;
// errAbsent when the channel has nothing for the platform.
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

// isMissing says whether a channel may have another file instead: stores answer 403 for
// what they do not have, too.
func isMissing(err error) bool { return errors.Is(err, errAbsent) || errors.Is(err, fault.Denied) }

// validatorsOf are those of what is known, if it was made of that file.
func (f *fetch) validatorsOf(file string) index.Meta {
	if f.known == nil || f.known.Meta().Source != file {
		return index.Meta{}
	}
	return f.known.Meta()
}

// whole makes an index of one file that has everything.
func (f *fetch) whole(ctx context.Context, file string) error {
	resp, err := f.ask(ctx, folder(f.base, f.subdir)+file, f.validatorsOf(file))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // what it had was read
	f.fresh = maxAge(resp.Header)
	m := index.Meta{Source: file, Fetched: f.store.now().UTC()}
	validators(&m, resp.Header)
	body := &summed{from: &bounded{resp.Body, limits.ChannelDownload}, hash: sha256.New()}
	text, done, err := opened(file, body)
	if err != nil {
		return err
	}
	defer done()
	_, err = index.Build(f.path, text, m, func(m *index.Meta) error {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return broken(err)
		}
		m.Snapshot = "sha256:" + hex.EncodeToString(body.hash.Sum(nil))
		return nil
	})
	return broken(err)
}

// opened is the text in a file.
func opened(file string, body io.Reader) (io.Reader, func(), error) {
	if file != zstdFile {
		return body, func() {}, nil
	}
	// The decoder's memory is bounded, and what it makes of the file by index.Build.
	z, err := zstd.NewReader(body, zstd.WithDecoderMaxWindow(limits.ChannelWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, nil, fmt.Errorf("starting a decoder: %w", err)
	}
	return z, z.Close, nil
}

// broken says what it means that a file could not be read to its end.
func broken(err error) error {
	if err == nil || errors.As(err, new(*fault.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.Unavailable.New("The channel's list of packages could not be read", err)
}

// summed is a stream whose digest is made while it is read.
type summed struct {
	from io.Reader
	hash hash.Hash
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.hash.Write(p[:n])
	return n, err
}

// all reads a small file whole.
func all(resp *http.Response, most int64) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }() // what it had was read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return raw, broken(err)
}
