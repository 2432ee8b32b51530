// Package testkit provides the dependencies of tests: embedded servers, or real ones if
// SLIPWAY_TEST_REAL is set (`make e2e`), registries on loopback, a clock, and images. It
// contains no mocks.
package testkit

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/embedded"
	"slipway.dev/services/internal/kv"
	"slipway.dev/services/internal/sqldb"
)

// Log returns a logger that writes to the test's output.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// EachDatabase runs a test on a new, empty database of every supported engine.
func EachDatabase(t *testing.T, test func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, SQLite(t))
	})
	if Real() {
		t.Run("postgres", func(t *testing.T) {
			t.Parallel()
			test(t, Postgres(t))
		})
	}
}

// SQLite returns a new database in a file of the test.
func SQLite(t testing.TB) *sqldb.DB {
	t.Helper()
	return open(t, "sqlite:"+filepath.Join(t.TempDir(), "test.db"))
}

func open(t testing.TB, url string) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// EachRedis runs a test on every kind of Redis.
func EachRedis(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, Redis(t))
	})
	if Real() {
		t.Run("real", func(t *testing.T) {
			t.Parallel()
			client, err := kv.Connect(StartRedis(t).URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			test(t, client)
		})
	}
}

// Redis returns a client of a new embedded Redis.
func Redis(t testing.TB) redis.UniversalClient {
	t.Helper()
	r := embedded.StartRedis()
	client := kv.Local(r.Dial)
	t.Cleanup(func() {
		_ = client.Close()
		r.Close()
	})
	return client
}

// NATS returns a connection to a new NATS server: a process with real servers, otherwise
// embedded.
func NATS(t testing.TB) *nats.Conn {
	t.Helper()
	if Real() {
		nc, err := bus.Connect(StartNATS(t).URL, Log(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	s, err := embedded.StartNATS(t.TempDir(), Log(t))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Local(s, Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	return nc
}

// An Unsteady server is an embedded NATS that a test stops and starts again, with the same data.
type Unsteady struct {
	t   testing.TB
	dir string
	at  atomic.Pointer[server.Server]
}

// UnsteadyNATS starts an embedded NATS, and returns a connection to it, which reconnects.
func UnsteadyNATS(t testing.TB) (*nats.Conn, *Unsteady) {
	t.Helper()
	u := &Unsteady{t: t, dir: t.TempDir()}
	u.Start()
	t.Cleanup(u.Stop)
	conn, err := bus.Local(u, Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, u
}

// InProcessConn implements nats.InProcessConnProvider.
func (u *Unsteady) InProcessConn() (net.Conn, error) { return u.at.Load().InProcessConn() }

// Start starts the server.
func (u *Unsteady) Start() {
	u.t.Helper()
	s, err := embedded.StartNATS(u.dir, Log(u.t))
	if err != nil {
		u.t.Fatal(err)
	}
	u.at.Store(s)
}

// Stop stops the server.
func (u *Unsteady) Stop() {
	u.at.Load().Shutdown()
	u.at.Load().WaitForShutdown()
}
