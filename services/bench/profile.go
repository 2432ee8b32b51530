package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// profile takes turns of a contender for a few seconds and writes slipwayd's CPU
// profile of that time to profiles/NAME.pprof; nothing where no folder was named.
func (w *world) profile(ctx context.Context, name string, slipway *server, c contender) error {
	if w.profiles == "" {
		return nil
	}
	const seconds = 5
	if err := os.MkdirAll(w.profiles, 0o750); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(w.profiles, name+".pprof"))
	if err != nil {
		return err
	}
	defer f.Close()
	taken := make(chan error, 1)
	go func() {
		path := fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds)
		_, err := once(ctx, slipway.admin, target{slipway.admin, path}.get(), f)
		taken <- err
	}()
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		if _, err := c.turn(ctx); err != nil {
			return err
		}
	}
	return <-taken
}
