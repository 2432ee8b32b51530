package app

import (
	"context"
	"net/http"
	"time"

	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/internal/vulns"
)

// startInspect starts the role inspect.
func startInspect(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	found, err := vulns.NewSource(vulns.Options{
		Location: e.cfg.ScanDatabase, Dir: e.dir("vulns"), Refresh: e.cfg.ScanDatabaseRefresh, VEX: e.cfg.ScanVEX,
		Client:  &http.Client{Transport: upstream.NewTransport(e.net.egress), CheckRedirect: upstream.CheckRedirect},
		Metrics: e.reg, Log: e.log.With("service", "inspect"), Now: time.Now,
	})
	if err != nil {
		return parts{}, err
	}
	s := inspect.New(inspect.Deps{
		Platform:   e.platform(),
		Containers: e.containers(), Host: e.publicHost(),
		Upstream: e.net.client, Control: e.net.control, Keychain: keys, Limiter: e.limiter(), Vulnerabilities: found, Metrics: e.reg,
		AnonymousAccess: e.cfg.AnonymousAccess,
	})
	return parts{register: s.Register, run: []func(context.Context) error{found.Run}}, nil
}
