package app

import (
	"time"

	"slipway.dev/services/metrics"
)

func (a *App) buildMetrics() error {
	s, err := metrics.New(metrics.Deps{
		DB: a.db, Bus: a.nats, Metrics: a.reg, Log: a.log.With("room", "metrics"), Now: time.Now, Accounts: a.cfg.MetricsAccounts,
	})
	if err != nil {
		return err
	}
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}
