package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/registry"
)

// startRegistry starts the role registry.
func startRegistry(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	spool := ""
	if e.cfg.CountPulls {
		spool = e.dir("pulls")
	}
	kept, err := Bucket(e.cfg)
	if err != nil {
		return parts{}, err
	}
	r, err := registry.New(registry.Deps{
		Containers: e.containers(),
		Builds:     e.builds(), Bus: e.nats,
		Upstream: e.net.client, Control: e.net.control, Keychain: keys,
		Limiter: e.limiter(), Metrics: e.reg, Log: e.log.With("service", "registry"), Now: time.Now,
		Settings: registry.Settings{
			LayerDir: e.dir("layers"), LayerCache: int64(e.cfg.LayerCache), ImageCache: int64(e.cfg.ImageCache),
			BlobDir: e.cfg.BlobCache, BlobBucket: kept, BlobCache: int64(e.cfg.BlobCacheSize), DiskFull: e.disks.Check,
			TagFreshness: e.cfg.TagFreshness, PullWait: e.cfg.PullWait, PublicURL: strings.TrimRight(e.cfg.PublicURL, "/"),
			SpoolDir: spool, FilesystemPrefix: e.cfg.FilesystemPrefix, PlatformURL: bare(e.cfg.PlatformURL),
		},
	})
	if err != nil {
		return parts{}, err
	}
	e.onClose(r.Close)
	return parts{run: []func(context.Context) error{r.Run}, pulls: r, jobsEnded: r.StopWaiting}, nil
}

// Bucket opens the bucket that blob_cache names; the caller closes it. It returns nil if
// blob_cache names none.
func Bucket(cfg config.Config) (*bucket.Bucket, error) {
	if !bucket.IsAddress(cfg.BlobCache) {
		return nil, nil //nolint:nilnil // there is none
	}
	at, err := bucket.Parse(cfg.BlobCache)
	if err != nil {
		return nil, fmt.Errorf("blob_cache %w", err)
	}
	return bucket.Open(at, cfg.BlobCacheLogin)
}
