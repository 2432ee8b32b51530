package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startPostgres makes a cluster with Debian's PostgreSQL, as it comes: what is
// committed is on disk. It answers nil when none is installed.
func (w *world) startPostgres(ctx context.Context) (*server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(found) == 0 {
		fmt.Fprintln(os.Stderr, "bench: PostgreSQL is not installed (apt-get install postgresql)")
		return nil, err
	}
	bin := found[len(found)-1]
	dir, err := os.MkdirTemp("", "slipway-bench-pg-") // nobody can reach it
	if err != nil {
		return nil, err
	}
	w.extra = append(w.extra, dir)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		const nobody = 65534
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "slipway", "-A", "trust")
	initdb.Dir, initdb.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	url := "postgres://slipway@" + addr + "/postgres?sslmode=disable"
	s, err := w.fleet.start(ctx, command{
		name: "postgres", path: filepath.Join(bin, "postgres"), addr: addr, as: as,
		args:  []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="},
		ready: func(ctx context.Context) error { return w.migrate(ctx, url) },
	})
	if err != nil {
		return nil, err
	}
	s.addr = url
	return s, nil
}

// migrate makes slipwayd's tables; the server may not be there yet.
func (w *world) migrate(ctx context.Context, url string) error {
	cmd := exec.CommandContext(ctx, w.slipwayd, "migrate", "--database-url", url)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}
