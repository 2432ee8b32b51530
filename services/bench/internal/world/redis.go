package world

import (
	"net"
	"os/exec"

	"slipway.dev/services/bench/internal/process"
)

// RedisSetting starts Debian's redis-server and returns the setting for it; empty if it is
// not installed.
func (w *World) RedisSetting() []string {
	if path, _ := exec.LookPath("redis-server"); !w.redisKnown && path != "" {
		addr := process.FreeAddr()
		_, port, _ := net.SplitHostPort(addr)
		w.Redis = w.keep(process.Command{
			Name: "redis", Path: path, Addr: addr, Ready: process.Listens("tcp", addr),
			Args: []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", w.Dir},
		})
	}
	w.redisKnown = true
	if w.Redis == nil {
		return nil
	}
	return []string{"SLIPWAY_REDIS_URL=redis://" + w.Redis.Addr}
}

// RemarkRedis returns a remark for figures that were measured without a real Redis.
func (w *World) RemarkRedis() string {
	if w.Redis == nil {
		return "embedded Redis: redis-server is not installed (apt-get install redis-server)"
	}
	return ""
}
