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

// Real says whether tests may start the servers that Debian packages: it is set
// by `make e2e`, which installs them.
func Real() bool { return real.Servers() }

// Server is a real server that a test started; it ends with the test.
type Server struct {
	// URL is how clients reach it.
	URL   string
	name  string
	args  []string
	ready func() error
	cred  *syscall.Credential

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// Ports that FreePort gives, below those that systems give to outgoing connections.
const firstPort, ports = 10_000, 22_000

// Where FreePort began, and how many it has looked at.
var (
	portsFrom = rand.IntN(ports)
	portsSeen atomic.Int64
)

// FreePort is a TCP port on loopback that was free a moment ago. Nobody takes it
// meanwhile: no outgoing connection, and no other test of this process.
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

// StartRedis runs redis-server, which keeps nothing on disk.
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

// StartPostgres makes a database cluster and runs it.
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
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", dir, "-U", "slipway", "-A", "trust", "-N")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.cred}
	initdb.Dir = "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	s.begin(t)
	return s
}

// shortDir is a folder of the test that an unprivileged user can reach.
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

// unprivileged is the user that Postgres runs as when the test is root.
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

// Start runs the server, again if it was killed, and waits until it answers. One
// that ends at once is started again: PostgreSQL does not begin while children of
// the one that was killed are still there.
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
	return fmt.Errorf("%s did not answer in time: %w", s.name, err)
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

// Kill ends the server at once, as kill -9 does.
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

// sharedPostgres is one server for all tests of a process: a cluster takes
// seconds to make.
var (
	sharedPostgres     *Server
	sharedPostgresOnce sync.Once
	databases          atomic.Int64
)

// Postgres is a fresh database on a server that the process's tests share. The
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

// forever is a test whose clean-ups wait for the end of the process: what it
// starts dies with its parent.
type forever struct{ testing.TB }

func (forever) Cleanup(func()) {}

// Builders puts what builds need on PATH: what `make builder` has made, and the
// slipway-runc of these sources.
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
