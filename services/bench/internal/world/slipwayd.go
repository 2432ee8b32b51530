package world

import (
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
)

// Slipway is the server that several sections share: all roles in one process, on
// a real Redis where there is one, with limits on.
func (w *World) Slipway() *slipwayd.Server {
	if w.shared == nil {
		w.shared = &slipwayd.Server{Server: w.keep(w.SlipwayCommand(w.RedisSetting()...))}
	}
	return w.shared
}

// StartSlipway starts one until the section ends.
func (w *World) StartSlipway(env ...string) *slipwayd.Server {
	return &slipwayd.Server{Server: w.Start(w.SlipwayCommand(env...))}
}

// SlipwayCommand is slipwayd as the world knows it, with a data folder of its own.
func (w *World) SlipwayCommand(env ...string) process.Command {
	insecure := ""
	if w.Up != nil {
		insecure = w.Up.Addr
	}
	return slipwayd.Command(w.Binary, w.Dir, insecure, env...)
}
