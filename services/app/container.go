package app

import (
	"context"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/container"
	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/config"
)

// startContainer starts the role container.
func startContainer(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	images, err := conda.Defaults{
		Mamba: e.cfg.CondaMambaImage, Base: e.cfg.CondaBaseImage, ClientMamba: e.cfg.CondaClientMamba, ClientBase: e.cfg.CondaClientBase,
		ClientPixi: e.cfg.CondaClientPixi, ClientR: e.cfg.CRANClient, CRANMirror: e.cfg.CRANMirror,
	}.Qualified()
	if err != nil {
		return parts{}, err
	}
	rules, err := e.policy()
	if err != nil {
		return parts{}, err
	}
	signing, err := e.signing()
	if err != nil {
		return parts{}, err
	}
	s, err := container.New(container.Deps{
		DB: e.db, Redis: e.redis, Bus: e.nats, Events: e.nats,
		Platform: e.platform(), Build: e.builds(), Conda: e.conda(), Inspect: e.scans(),
		Upstream: e.net.client, Control: e.net.control, Reads: e.net.reads, Keychain: keys, Limiter: e.limiter(), Turns: e.turns, Policy: rules, Signing: signing,
		Metrics: e.reg, Log: e.log.With("service", "container"), Now: time.Now,
		Settings: container.Settings{
			Host:             e.publicHost(),
			PublicURL:        strings.TrimRight(e.cfg.PublicURL, "/"),
			Builds:           container.Builds{Registry: e.own().Host, Repository: e.own().Repository},
			EmbeddedStore:    e.store(),
			AnonymousAccess:  e.cfg.AnonymousAccess,
			Keep:             keepFor(&e.cfg),
			KeepPackages:     e.cfg.KeepPackages,
			TokenTTL:         e.cfg.TokenTTL,
			Retention:        e.cfg.RequestRetention,
			CondaSolveWait:   e.cfg.CondaSolveWait,
			CondaLockTTL:     e.cfg.CondaLockTTL,
			CondaDefaults:    images,
			LayerStore:       int64(e.cfg.LayerStore),
			TokenMemory:      e.tokenMemory(),
			OperatorAccounts: e.cfg.OperatorAccounts,
			Version:          e.version.Version,
			Commit:           e.version.Commit,
		},
	})
	if err != nil {
		return parts{}, err
	}
	return parts{register: s.Register, run: []func(context.Context) error{s.Run}, jobs: func(ctx context.Context) error {
		var scans sync.WaitGroup
		defer scans.Wait()
		scans.Go(func() { _ = s.ScanImages(ctx) }) // it returns no error
		return s.SolveBuilds(ctx)
	}}, nil
}

// keepFor returns who may keep images.
func keepFor(cfg *config.Config) string {
	switch {
	case cfg.Keep != "":
		return cfg.Keep
	case cfg.AnonymousAccess:
		return container.KeepUsers
	}
	return container.KeepOff
}
