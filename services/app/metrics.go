package app

import (
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/metrics"
)

func (a *App) buildMetrics() error {
	d := metrics.Deps{
		DB: a.db, Bus: a.nats, Metrics: a.reg, Log: a.log.With("room", "metrics"), Now: time.Now, Accounts: a.cfg.MetricsAccounts,
		Stores: a.stores(),
	}
	if conn := a.conns["platform"]; conn != nil {
		d.Platform = platformv1.NewPlatformServiceClient(conn)
	}
	s, err := metrics.New(d)
	if err != nil {
		return err
	}
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}
