package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
)

// world is what the sections share: servers that start when the first section
// needs them, and the images at the upstream registry.
type world struct {
	settings
	dir   string
	extra []string // more folders to remove
	fleet fleet

	up, peer, shared *server
	redis            *server // nil when redis-server is not installed
	redisKnown       bool
	pushed           map[string]bool
	ctl              string // path of buildctl, once it is built
}

func newWorld(s settings) (*world, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	return &world{settings: s, dir: dir, fleet: fleet{logs: dir}, pushed: map[string]bool{}}, nil
}

// close ends every process and removes every file.
func (w *world) close() error {
	w.fleet.stopAll()
	var problems []error
	for _, dir := range append(w.extra, w.dir) {
		problems = append(problems, os.RemoveAll(dir))
	}
	return errors.Join(problems...)
}

// upstream is a registry (olareg) on disk.
func (w *world) upstream(ctx context.Context) (*server, error) {
	if w.up != nil {
		return w.up, nil
	}
	path, err := buildPeer(ctx, w.bin, olaregPackage)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addr)
	w.up, err = w.fleet.start(ctx, command{
		name: "upstream", path: path, addr: addr, ready: answers("http://" + addr + "/v2/"),
		args: []string{"serve", "--addr", host, "--port", port, "--dir", filepath.Join(w.dir, "upstream"), "--gc-frequency", "-1s"},
	})
	return w.up, err
}
