package app

import (
	"context"

	"slipway.dev/services/inspect"
)

// startInspect starts the role inspect.
func startInspect(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	s := inspect.New(inspect.Deps{
		Platform:   e.platform(),
		Containers: e.containers(), Host: e.publicHost(),
		Upstream: e.net.client, Control: e.net.control, Keychain: keys, Limiter: e.limiter(), Metrics: e.reg,
		AnonymousAccess: e.cfg.AnonymousAccess,
	})
	return parts{register: s.Register}, nil
}
