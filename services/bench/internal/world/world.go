// Package world provides the environment that sections share: slipwayd, its peers and their
// upstream registry, each started on first use, and the images at that registry.
package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
)

// A World is the shared environment of the sections. Its servers start on first use.
type World struct {
	Settings
	// Ctx ends with the program.
	Ctx   context.Context //nolint:containedctx // a world is one run of the program, which is over when this is
	Dir   string
	extra []string // additional folders to remove

	// fleet holds the servers that stop when a section ends, lasting those that stop when the
	// program ends.
	fleet, lasting process.Fleet

	Up         *process.Server
	peer       *process.Server // distribution
	other      *process.Server // zot
	shared     *slipwayd.Server
	Redis      *process.Server // nil when redis-server is not installed
	redisKnown bool
	pushed     map[string]bool
	ctl        string // path of buildctl, once it is built
}

// New creates a world in a new folder. The caller must close it.
func New(ctx context.Context, s Settings) (*World, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	return &World{Settings: s, Ctx: ctx, Dir: dir, fleet: process.Fleet{Logs: dir}, lasting: process.Fleet{Logs: dir}, pushed: map[string]bool{}}, nil
}

// Close ends every process and removes every file.
func (w *World) Close() error {
	w.fleet.StopAll()
	w.lasting.StopAll()
	var problems []error
	for _, dir := range append(w.extra, w.Dir) {
		problems = append(problems, os.RemoveAll(dir))
	}
	return errors.Join(problems...)
}

// Start runs a server until the section ends, keep until the program ends.
func (w *World) Start(c process.Command) *process.Server { return must.Get(w.fleet.Start(w.Ctx, c)) }
func (w *World) keep(c process.Command) *process.Server  { return must.Get(w.lasting.Start(w.Ctx, c)) }

// StopStarted ends the servers that Start started.
func (w *World) StopStarted() { w.fleet.StopAll() }

// File writes a file to the world's folder and returns its path.
func (w *World) File(name, text string) string {
	path := filepath.Join(w.Dir, name)
	must.Do(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Pause waits for d, or ends the section if the program ends.
func (w *World) Pause(d time.Duration) { must.Wait(w.Ctx, d) }

// Profile gives a contender turns for a few seconds and writes slipwayd's CPU profile of
// that time to profiles/NAME.pprof. It does nothing without a folder for profiles.
func (w *World) Profile(name string, slipway *slipwayd.Server, c figure.Contender) {
	if w.Profiles == "" {
		return
	}
	const seconds = 5
	must.Do(os.MkdirAll(w.Profiles, 0o750))
	taken := make(chan error, 1)
	go func() {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", slipway.Admin, seconds)
		raw, _, err := engine.Read(w.Ctx, http.DefaultClient, url)
		taken <- errors.Join(err, os.WriteFile(filepath.Join(w.Profiles, name+".pprof"), raw, 0o600))
	}()
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		c.Run()
	}
	must.Do(<-taken)
}

// Settled is how long a server must be left alone before it counts as idle.
const Settled = 3 * time.Second

// Settings configure the sections.
type Settings struct {
	// Binary is the slipwayd to measure, Bin the folder for peers.
	Binary, Bin string
	// Profiles is a folder for CPU profiles; "" for none.
	Profiles string
	// Rounds is the number of turns of each contender, Requests the number of requests in a
	// turn, Pulls the number of concurrent pulls, and BlobMiB the size of the large blob.
	Rounds, Requests, Pulls, BlobMiB int
}
