package world

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
)

// PostgresPrograms returns the folder of Debian's PostgreSQL programs; "" if it is not
// installed.
func PostgresPrograms() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// StartPostgres creates a cluster with Debian's PostgreSQL and its default settings:
// commits are durable. Its Addr is a URL.
func (w *World) StartPostgres() *process.Server {
	bin, dir := PostgresPrograms(), must.Get(os.MkdirTemp("", "slipway-bench-pg-")) // not reachable from outside
	w.extra = append(w.extra, dir)
	var as *syscall.Credential
	if os.Getuid() == 0 {
		const nobody = 65534
		as = &syscall.Credential{Uid: nobody, Gid: nobody}
		must.Do(os.Chown(dir, nobody, nobody))
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(w.Ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "slipway", "-A", "trust")
	initdb.Dir, initdb.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as}
	Output(initdb)
	addr := process.FreeAddr()
	_, port, _ := net.SplitHostPort(addr)
	url := "postgres://slipway@" + addr + "/postgres?sslmode=disable"
	return w.Start(process.Command{
		Name: "postgres", Path: filepath.Join(bin, "postgres"), Addr: url, As: as,
		Args:  []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="},
		Ready: func(ctx context.Context) error { return w.migrate(ctx, url) },
	})
}

// migrate creates slipwayd's tables. It retries while the server is starting.
func (w *World) migrate(ctx context.Context, url string) error {
	cmd := exec.CommandContext(ctx, w.Binary, "migrate", "--database-url", url)
	cmd.Dir = w.Dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return err
}
