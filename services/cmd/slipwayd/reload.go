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

// onHangup calls reload at each SIGHUP, also for one that came while the process started. Until run
// is called, the signal waits.
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
