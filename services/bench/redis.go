package main

import (
	"net"
	"os/exec"
)

// redisSetting names Debian's redis-server; empty where it is not installed.
func (w *world) redisSetting() []string {
	if path, _ := exec.LookPath("redis-server"); !w.redisKnown && path != "" {
		addr := freeAddr()
		_, port, _ := net.SplitHostPort(addr)
		w.redis = w.keep(command{
			name: "redis", path: path, addr: addr, ready: listens("tcp", addr),
			args: []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", w.dir},
		})
	}
	w.redisKnown = true
	if w.redis == nil {
		return nil
	}
	return []string{"SLIPWAY_REDIS_URL=redis://" + w.redis.addr}
}

// remarkRedis is what figures say when the real Redis was missing.
func (w *world) remarkRedis() string {
	if w.redis == nil {
		return "embedded Redis: redis-server is not installed (apt-get install redis-server)"
	}
	return ""
}
