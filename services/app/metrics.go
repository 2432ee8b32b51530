package app

import (
	"context"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/metrics"
)

// startMetrics starts the role metrics.
func startMetrics(_ context.Context, e *env) (parts, error) {
	d := metrics.Deps{
		DB: e.db, Bus: e.nats, Metrics: e.reg, Log: e.log.With("service", "metrics"), Now: time.Now, Accounts: e.cfg.MetricsAccounts,
		Stores: e.stores(), Disks: e.disksInUse(), Health: e.health,
	}
	var err error
	if d.Servers, err = e.storeServers(); err != nil {
		return parts{}, err
	}
	if conn := e.conns["platform"]; conn != nil {
		d.Platform = platformv1.NewAccessServiceClient(conn)
	}
	s, err := metrics.New(d)
	if err != nil {
		return parts{}, err
	}
	return parts{register: s.Register, run: []func(context.Context) error{s.Run}}, nil
}
