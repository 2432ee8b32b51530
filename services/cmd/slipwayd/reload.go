package main

import (
	"os"
	"os/signal"
	"syscall"

	"slipway.dev/services/app"
)

// hangups returns SIGHUP if stderr is a terminal, which sends it when it closes. Otherwise SIGHUP
// makes a server read its settings again.
func hangups() []os.Signal {
	if app.IsTerminal(os.Stderr) {
		return []os.Signal{syscall.SIGHUP}
	}
	return nil
}

// onHangup starts to receive SIGHUP. run calls reload for each signal, including one that arrived
// before run was called. end stops both.
func onHangup() (run func(reload func()), end func()) {
	signals := make(chan os.Signal, 1)
	if len(hangups()) == 0 {
		signal.Notify(signals, syscall.SIGHUP)
	}
	run = func(reload func()) {
		for range signals {
			reload()
		}
	}
	return run, func() { signal.Stop(signals); close(signals) }
}
