package channel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// shards builds an index from a channel's shards (CEP 16). It copies unchanged shards from
// the existing index and fetches the others. Without an existing index and with many
// shards, it returns errAbsent, because one complete file is faster than thousands of
// shards.
func (f *fetch) shards(ctx context.Context) error {
	resp, err := f.request(ctx, folder(f.base, f.subdir)+shardsFile, f.validatorsOf(shardsFile))
	if err != nil {
		return err
	}
	f.fresh = maxAge(resp.Header)
	m := index.Meta{Source: shardsFile, Fetched: f.store.now().UTC()}
	validators(&m, resp.Header)
	raw, err := all(resp, limits.ChannelShardIndex)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(raw)
	m.Snapshot = "sha256:" + hex.EncodeToString(sum[:])
	if f.known != nil && f.known.Meta().Snapshot == m.Snapshot {
		return errUnchanged
	}
	text, err := unpack(raw, limits.ChannelShardIndex)
	if err != nil {
		return err
	}
	list, err := index.ReadShards(text)
	if err != nil {
		return err
	}
	if f.known == nil && len(list.Hashes) > limits.ChannelShardsFirst {
		return errAbsent
	}
	m.BaseURL = list.BaseURL
	return f.assemble(ctx, list, m)
}

// assemble writes the index.
func (f *fetch) assemble(ctx context.Context, list index.Shards, m index.Meta) error {
	w, err := index.Create(f.path)
	if err != nil {
		return err
	}
	w.Bound(f.most)
	missing, err := f.keep(w, list)
	if err == nil {
		err = f.fill(ctx, w, list, missing)
	}
	if err != nil {
		return errors.Join(err, w.Discard())
	}
	_, err = w.Commit(m)
	return err
}

// keep copies the unchanged shards and returns the names of the others.
func (f *fetch) keep(w *index.Writer, list index.Shards) (missing []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(list.Hashes)) {
		kept := false
		if f.known != nil {
			if kept, err = w.Keep(f.known, name, list.Hashes[name]); err != nil {
				return nil, err
			}
		}
		if !kept {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// fill fetches the missing shards concurrently.
func (f *fetch) fill(ctx context.Context, w *index.Writer, list index.Shards, missing []string) error {
	at, err := list.Folder(folder(f.base, f.subdir))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limits.ChannelShardsAtOnce)
	for _, name := range missing {
		group.Go(func() error {
			h := list.Hashes[name]
			raw, err := f.shard(ctx, at.JoinPath(h.String()+".msgpack.zst").String(), h)
			if err != nil {
				return fmt.Errorf("fetching the shard of %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			text, err := unpack(raw, limits.ChannelShard) // one at a time: it may be large
			if err != nil {
				return fmt.Errorf("reading the shard of %s: %w", name, err)
			}
			return w.AddShard(name, h, text)
		})
	}
	return group.Wait()
}

// shard fetches a compressed shard and verifies its hash.
func (f *fetch) shard(ctx context.Context, address string, want index.Hash) ([]byte, error) {
	resp, err := f.request(ctx, address, index.Meta{})
	if err != nil {
		return nil, err
	}
	raw, err := all(resp, limits.ChannelShardSent)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(raw) != want {
		return nil, fault.Unavailable.Newf("The channel's shard does not match the digest in the channel's list")
	}
	return raw, nil
}

// unpack decompresses a small file. It stops at most bytes.
func unpack(raw []byte, most uint64) ([]byte, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(most), zstd.WithDecoderMaxWindow(limits.ChannelWindow))
	if err != nil {
		return nil, fmt.Errorf("starting a decoder: %w", err)
	}
	defer z.Close()
	out, err := z.DecodeAll(raw, nil)
	if err != nil {
		return nil, fault.Unavailable.New("The channel's list of packages is damaged", err)
	}
	return out, nil
}
