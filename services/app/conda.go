package app

import (
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/upstream"
)

func (a *App) buildConda() error {
	keys, err := a.keychain()
	if err != nil {
		return err
	}
	names, err := channel.NewNames(a.cfg.CondaChannelAlias, a.cfg.CondaChannels)
	if err != nil {
		return err
	}
	channels, err := channel.New(channel.Options{
		Dir: a.dir("conda"), Size: int64(a.cfg.CondaIndexSize), Refresh: a.cfg.CondaRefresh, Names: names,
		Client: channel.NewClient(upstream.NewTransport(a.net.egress)), Metrics: a.reg, Log: a.log.With("room", "conda"), Now: time.Now,
	})
	if err != nil {
		return err
	}
	if !a.isWhole() {
		// Beside the other roles it is no reason to turn clients away.
		a.check("channels", required, channels.Ready)
	}
	s := conda.New(conda.Deps{
		Platform: platformv1.NewPlatformServiceClient(a.conns["platform"]), Build: a.builds(), Keychain: keys, Limiter: a.limiter(),
		Channels: channels, Metrics: a.reg, Now: time.Now,
		AnonymousAccess: a.cfg.AnonymousAccess, SearchesUser: a.cfg.LimitSearchesUser, SearchesAnonymous: a.cfg.LimitSearchesAnonymous,
	})
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}
