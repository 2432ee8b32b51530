package world

import (
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
)

// Slipway returns the server that several sections share: all roles in one process, with a
// real Redis if installed, and with rate limits.
func (w *World) Slipway() *slipwayd.Server {
	if w.shared == nil {
		w.shared = &slipwayd.Server{Server: w.keep(w.SlipwayCommand(w.RedisSetting()...))}
	}
	return w.shared
}

// StartSlipway starts a server that ends with the section.
func (w *World) StartSlipway(env ...string) *slipwayd.Server {
	return &slipwayd.Server{Server: w.Start(w.SlipwayCommand(env...))}
}

// SlipwayCommand returns the command of slipwayd with its own data folder, configured for
// the world's registry.
func (w *World) SlipwayCommand(env ...string) process.Command {
	insecure := ""
	if w.Up != nil {
		insecure = w.Up.Addr
	}
	return slipwayd.Command(w.Binary, w.Dir, insecure, env...)
}
