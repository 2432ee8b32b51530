package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/memo"
)

// layerCache caches the content of `data:` layers on local disk, by digest, within a size
// limit. A file is either complete or missing.
type layerCache struct {
	containers containerv1.ContainerServiceClient
	dir        string
	limit      int64
	flight     memo.Flight[digest.Digest, struct{}]
	hits       *stats.Counter
}

func newLayerCache(c containerv1.ContainerServiceClient, dir string, limit int64) (*layerCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the layer cache: %w", err)
	}
	return &layerCache{containers: c, dir: dir, limit: limit, hits: stats.NewCounter()}, nil
}

func (c *layerCache) path(d digest.Digest) string { return filepath.Join(c.dir, d.Encoded()) }

// open returns the layer's file and fetches it first if needed. The caller closes it.
func (c *layerCache) open(ctx context.Context, d digest.Digest) (*os.File, error) {
	f, err := os.Open(c.path(d))
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(c.path(d), now, now) // only affects the order of eviction
		c.hits.RecordHits(1)
		return f, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c.hits.RecordMisses(1)
	_, err = c.flight.Do(ctx, d, func(ctx context.Context) (struct{}, error) { return struct{}{}, c.fetch(ctx, d) })
	if err != nil {
		return nil, fmt.Errorf("fetching layer %s: %w", d, err)
	}
	return os.Open(c.path(d))
}

func (c *layerCache) fetch(ctx context.Context, d digest.Digest) (err error) {
	stream, err := c.containers.GetLayer(ctx, &containerv1.GetLayerRequest{GzipDigest: d.String()})
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(c.dir, "incoming-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	verify := d.Verifier()
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if _, err := io.MultiWriter(tmp, verify).Write(part.GetChunk()); err != nil {
			return err
		}
	}
	if !verify.Verified() {
		return errors.New("the content does not have the digest")
	}
	if err := os.Rename(tmp.Name(), c.path(d)); err != nil {
		return err
	}
	c.trim(d)
	return tmp.Close()
}

// trim evicts the least recently used layers until the rest fits. It never evicts keep.
func (c *layerCache) trim(keep digest.Digest) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, f := range files {
		if total <= c.limit {
			return
		}
		if f.Name() == keep.Encoded() {
			continue
		}
		if os.Remove(filepath.Join(c.dir, f.Name())) == nil {
			total -= f.Size()
		}
	}
}
