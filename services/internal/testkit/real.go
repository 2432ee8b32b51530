package testkit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit/real"
)

// Real reports whether tests may start servers from Debian packages. `make e2e` installs
// them and sets SLIPWAY_TEST_REAL.
func Real() bool { return real.Servers() }

// A Server is a real server that ends with the test.
type Server struct {
	// URL is the address for clients.
	URL   string
	name  string
	args  []string
	ready func() error
	cred  *syscall.Credential

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// The ports that FreePort returns, which are below those that systems use for outgoing
// connections.
const firstPort, ports = 10_000, 22_000

// The first port of FreePort, and the number of ports that it has tried.
var (
	portsFrom = rand.IntN(ports)
	portsSeen atomic.Int64
)

// FreePort returns a TCP port on loopback that was just free. Neither outgoing connections
// nor other tests of this process use it.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(firstPort + (portsFrom+int(portsSeen.Add(1)))%ports)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// StartRedis runs redis-server without persistence.
func StartRedis(t testing.TB) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{
		URL: "redis://127.0.0.1:" + port, name: "redis-server",
		args:  []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()},
		ready: accepts(port),
	}
	s.begin(t)
	return s
}

// StartNATS runs nats-server with JetStream.
func StartNATS(t testing.TB) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{
		URL: "nats://127.0.0.1:" + port, name: "nats-server",
		args:  []string{"-a", "127.0.0.1", "-p", port, "-js", "-sd", t.TempDir()},
		ready: accepts(port),
	}
	s.begin(t)
	return s
}

// StartPostgres creates and runs a database cluster.
func StartPostgres(t testing.TB) *Server {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		t.Fatal("PostgreSQL is not installed: apt-get install postgresql")
	}
	bin := bins[len(bins)-1]
	port, dir := FreePort(t), filepath.Join(shortDir(t), "pg")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &Server{
		URL:  "postgres://slipway@127.0.0.1:" + port + "/postgres?sslmode=disable",
		name: filepath.Join(bin, "postgres"),
		args: []string{"-D", dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=300"},
		cred: unprivileged(t, dir),
	}
	s.ready = func() error {
		db, err := sqldb.Open(context.Background(), s.URL)
		if err == nil {
			err = db.Close()
		}
		return err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", dir, "-U", "slipway", "-A", "trust", "-N", "--locale=C.UTF-8", "--encoding=UTF8")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	initdb.Dir = "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.begin(t)
	return s
}

// shortDir returns a folder of the test that an unprivileged user can access.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// unprivileged returns the user that Postgres runs as if the test is root.
func unprivileged(t testing.TB, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

func accepts(port string) func() error {
	return func() error {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	}
}

func (s *Server) begin(t testing.TB) {
	t.Helper()
	t.Cleanup(s.Kill)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

// Start runs the server and waits until it responds. It can be called again after Kill. A
// server that exits immediately is started again: PostgreSQL does not start while children
// of the killed process still exist.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.launch(); err != nil {
		return err
	}
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = s.ready(); err == nil {
			return nil
		}
		select {
		case <-s.ended:
			if err := s.launch(); err != nil {
				return err
			}
		default:
		}
	}
	return fmt.Errorf("%s did not respond in time: %w", s.name, err)
}

func (s *Server) launch() error {
	cmd, ended := exec.Command(s.name, s.args...), make(chan struct{})
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: s.cred}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	s.cmd, s.ended = cmd, ended
	go func() { _ = cmd.Wait(); close(ended) }()
	return nil
}

// Kill kills the server with SIGKILL.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// sharedPostgres is one server for all tests of a process, because creating a cluster takes
// seconds.
var (
	sharedPostgres     *Server
	sharedPostgresOnce sync.Once
	databases          atomic.Int64
)

// Postgres returns a new database on a server that the tests of the process share. The
// server ends with the process.
func Postgres(t testing.TB) *sqldb.DB {
	t.Helper()
	sharedPostgresOnce.Do(func() { sharedPostgres = StartPostgres(forever{t}) })
	admin := open(t, sharedPostgres.URL)
	dbName := "test" + strconv.FormatInt(databases.Add(1), 10)
	if _, err := admin.Exec("CREATE DATABASE " + dbName); err != nil {
		t.Fatal(err)
	}
	u := sharedPostgres.URL
	return open(t, u[:len(u)-len("postgres?sslmode=disable")]+dbName+"?sslmode=disable")
}

// forever is a test that ignores cleanups: the servers that it starts end with the process.
type forever struct{ testing.TB }

func (forever) Cleanup(func()) {}

// Builders adds the programs for builds to PATH: those that `make builder` has built, and
// the slipway-runc of this source tree.
func Builders(t testing.TB) {
	t.Helper()
	if !Real() {
		t.Skip("needs buildkitd, runc and root: set SLIPWAY_TEST_REAL")
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "slipway.dev/services").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+"/", "slipway.dev/services/cmd/slipway-runc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building slipway-runc: %v\n%s", err, out)
	}
	made := filepath.Join(filepath.Dir(strings.TrimSpace(string(root))), "bin")
	t.Setenv("PATH", strings.Join([]string{dir, made, os.Getenv("PATH")}, ":"))
}
