package main

import (
	"context"
	"os"
)

// slipway is the server that several sections share: all roles in one process, on
// a real Redis where there is one, with limits on.
func (w *world) slipway(ctx context.Context) (*server, error) {
	if w.shared != nil {
		return w.shared, nil
	}
	env, err := w.redisSetting(ctx)
	if err != nil {
		return nil, err
	}
	w.shared, err = w.startSlipway(ctx, env...)
	return w.shared, err
}

// redisSetting names the real Redis; empty when there is none.
func (w *world) redisSetting(ctx context.Context) ([]string, error) {
	r, err := w.realRedis(ctx)
	if r == nil || err != nil {
		return nil, err
	}
	return []string{"SLIPWAY_REDIS_URL=redis://" + r.addr}, nil
}

// startSlipway starts slipwayd with a data folder of its own. Limits are so high
// that they are counted but never reached.
func (w *world) startSlipway(ctx context.Context, env ...string) (*server, error) {
	data, err := os.MkdirTemp(w.dir, "slipway-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	store, err := freeAddr()
	if err != nil {
		return nil, err
	}
	insecure := ""
	if w.up != nil {
		insecure = w.up.addr
	}
	return w.fleet.start(ctx, command{
		name: "slipwayd", path: w.slipwayd, args: []string{"serve"}, addr: addr, admin: admin, data: data,
		ready: answers("http://" + admin + "/readyz"),
		env: append([]string{
			"SLIPWAY_HTTP_ADDR=" + addr, "SLIPWAY_PLATFORM_HTTP_ADDR=", "SLIPWAY_ADMIN_ADDR=" + admin, "SLIPWAY_PLATFORM_HTTP_ADDR=", "SLIPWAY_PUBLIC_URL=http://" + addr,
			"SLIPWAY_STORE_ADDR=" + store,
			"SLIPWAY_DATA_DIR=" + data, "SLIPWAY_EGRESS_ALLOW=127.0.0.0/8", "SLIPWAY_INSECURE_REGISTRIES=" + insecure,
			"SLIPWAY_LIMIT_PULLS_ANONYMOUS=1000000000/1h", "SLIPWAY_LIMIT_REQUESTS_ANONYMOUS=1000000000/1h", "SLIPWAY_LIMIT_REQUESTS_USER=1000000000/1h", "SLIPWAY_LIMIT_PULLS_USER=1000000000/1h",
		}, env...),
	})
}

// remarkRedis is what figures say when the real Redis was missing.
func (w *world) remarkRedis() string {
	if w.redis == nil {
		return "embedded Redis: redis-server is not installed"
	}
	return ""
}
