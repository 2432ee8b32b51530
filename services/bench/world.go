package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// world is what the sections share: servers that start when the first section
// needs them, and the images at the upstream registry.
type world struct {
	settings
	// ctx ends with the program.
	ctx   context.Context //nolint:containedctx // a world is one run of the program, which is over when this is
	dir   string
	extra []string // more folders to remove

	// fleet ends with each section, lasting with the program.
	fleet, lasting fleet

	up, peer   *server
	shared     *slipwayServer
	redis      *server // nil when redis-server is not installed
	redisKnown bool
	pushed     map[string]bool
	ctl        string // path of buildctl, once it is built
}

func newWorld(ctx context.Context, s settings) (*world, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	return &world{settings: s, ctx: ctx, dir: dir, fleet: fleet{logs: dir}, lasting: fleet{logs: dir}, pushed: map[string]bool{}}, nil
}

// close ends every process and removes every file.
func (w *world) close() error {
	w.fleet.stopAll()
	w.lasting.stopAll()
	var problems []error
	for _, dir := range append(w.extra, w.dir) {
		problems = append(problems, os.RemoveAll(dir))
	}
	return errors.Join(problems...)
}

// start runs a server until the section ends; keep until the program does.
func (w *world) start(c command) *server { return must(w.fleet.start(w.ctx, c)) }
func (w *world) keep(c command) *server  { return must(w.lasting.start(w.ctx, c)) }

// file writes a file of the world's folder, and returns its path.
func (w *world) file(name, text string) string {
	path := filepath.Join(w.dir, name)
	check(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// pause waits, or ends the section with the program.
func (w *world) pause(d time.Duration) { pause(w.ctx, d) }

// profile takes turns of a contender for a few seconds and writes slipwayd's CPU
// profile of that time to profiles/NAME.pprof; nothing where no folder was named.
func (w *world) profile(name string, slipway *slipwayServer, c contender) {
	if w.profiles == "" {
		return
	}
	const seconds = 5
	check(os.MkdirAll(w.profiles, 0o750))
	taken := make(chan error, 1)
	go func() {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", slipway.admin, seconds)
		raw, _, err := read(w.ctx, http.DefaultClient, url)
		taken <- errors.Join(err, os.WriteFile(filepath.Join(w.profiles, name+".pprof"), raw, 0o600))
	}()
	for end := time.Now().Add(seconds * time.Second); time.Now().Before(end); {
		c.turn()
	}
	check(<-taken)
}

// settled is how long a server is left alone before it counts as idle.
const settled = 3 * time.Second

// settings are what sections are run with.
type settings struct {
	// binary is the slipwayd that is measured; bin the folder for peers.
	binary, bin string
	// profiles is a folder for CPU profiles; "" is none.
	profiles string
	// rounds is how often contenders take turns; requests how many one of them
	// answers in its turn; pulls how many run at once; blobMiB the large blob's size.
	rounds, requests, pulls, blobMiB int
}
