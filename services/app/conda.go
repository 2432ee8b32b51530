package app

import (
	"context"
	"time"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/upstream"
)

// startConda starts the role conda.
func startConda(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	names, err := channel.NewNames(e.cfg.CondaChannelAlias, e.cfg.CondaChannels, e.cfg.CondaDefaults...)
	if err != nil {
		return parts{}, err
	}
	hosts, err := conda.ParseWheelHosts(e.cfg.CondaPyPIHosts)
	if err != nil {
		return parts{}, err
	}
	channels, err := channel.New(channel.Options{
		Dir: e.dir("conda"), Size: int64(e.cfg.CondaIndexSize), Refresh: e.cfg.CondaRefresh, History: e.cfg.CondaHistory, Names: names,
		Client: channel.NewClient(upstream.NewChannelTransport(e.net.client, upstream.NewTransport(e.net.egress))), Metrics: e.reg, Log: e.log.With("service", "conda"), Now: time.Now,
	})
	if err != nil {
		return parts{}, err
	}
	e.live.onReload(func(cfg config.Config) (func(), error) {
		next, err := channel.NewNames(cfg.CondaChannelAlias, cfg.CondaChannels, cfg.CondaDefaults...)
		return func() { channels.Rename(next) }, err
	})
	s := conda.New(conda.Deps{
		Platform: e.platform(), Build: e.builds(), Keychain: keys, Limiter: e.limiter(), Turns: e.turns,
		Channels: channels, WheelHosts: hosts, Metrics: e.reg, MinAge: e.solverAge(), Now: time.Now,
		AnonymousAccess: e.cfg.AnonymousAccess,
	})
	return parts{register: s.Register, run: []func(context.Context) error{s.Run}, checks: []check{newCheck("channels", optional, func(context.Context) error { return channels.Health() })}}, nil
}
