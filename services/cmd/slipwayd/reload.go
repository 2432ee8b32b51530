package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
)

// hangups returns SIGHUP if it ends the process: when its terminal is closed. A process without a
// terminal reads its settings again instead.
func hangups() []os.Signal {
	if app.IsTerminal(os.Stderr) {
		return []os.Signal{syscall.SIGHUP}
	}
	return nil
}

// reloadOnHangup makes a process without a terminal read its settings again at each SIGHUP, until
// end is called.
func reloadOnHangup(cmd *cobra.Command, a *app.App) (end func()) {
	if len(hangups()) > 0 {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for range signals {
			cfg, err := load(cmd)
			a.Reload(cfg, err)
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}
