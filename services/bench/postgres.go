package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// postgresPrograms is the folder of what Debian installs; "" is none.
func postgresPrograms() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// startPostgres makes a cluster with Debian's PostgreSQL, as it comes: what is
// committed is on disk. Its addr is a URL.
func (w *world) startPostgres() *server {
	bin, dir := postgresPrograms(), must(os.MkdirTemp("", "slipway-bench-pg-")) // nobody can reach it
	w.extra = append(w.extra, dir)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		const nobody = 65534
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		check(os.Chown(dir, nobody, nobody))
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(w.ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "slipway", "-A", "trust")
	initdb.Dir, initdb.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	output(initdb)
	addr := freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	url := "postgres://slipway@" + addr + "/postgres?sslmode=disable"
	return w.start(command{
		name: "postgres", path: filepath.Join(bin, "postgres"), addr: url, as: as,
		args:  []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="},
		ready: func(ctx context.Context) error { return w.migrate(ctx, url) },
	})
}

// migrate makes slipwayd's tables; the server may not be there yet.
func (w *world) migrate(ctx context.Context, url string) error {
	cmd := exec.CommandContext(ctx, w.binary, "migrate", "--database-url", url)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}
