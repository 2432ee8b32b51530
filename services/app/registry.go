package app

import (
	"context"
	"strings"
	"time"

	"slipway.dev/services/registry"
)

// startRegistry starts the role registry.
func startRegistry(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	rules, err := e.policy()
	if err != nil {
		return parts{}, err
	}
	spool := ""
	if e.cfg.CountPulls {
		spool = e.dir("pulls")
	}
	r, err := registry.New(registry.Deps{
		Containers: e.containers(),
		Builds:     e.builds(), Bus: e.nats,
		Upstream: e.net.client, Reads: e.net.reads, Control: e.net.control, Blobs: e.net.blobs, Keychain: keys,
		Limiter: e.limiter(), Policy: rules, Metrics: e.reg, Log: e.log.With("service", "registry"), Now: time.Now,
		Settings: registry.Settings{
			LayerDir: e.dir("layers"), LayerCache: int64(e.cfg.LayerCache), ImageCache: int64(e.cfg.ImageCache),
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
