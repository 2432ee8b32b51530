package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/metrics"
	"slipway.dev/services/registry"
)

// oneImage is a container service that knows one name.
type oneImage struct {
	containerv1.ContainerServiceClient
	plan *containerv1.Plan
}

func (o oneImage) ResolveToken(context.Context, *containerv1.ResolveTokenRequest, ...grpc.CallOption) (*containerv1.ResolveTokenResponse, error) {
	return &containerv1.ResolveTokenResponse{Plan: o.plan}, nil
}

func (oneImage) RecordDigest(context.Context, *containerv1.RecordDigestRequest, ...grpc.CallOption) (*containerv1.RecordDigestResponse, error) {
	return &containerv1.RecordDigestResponse{}, nil
}

// noLogins is a platform without stored logins.
type noLogins struct {
	platformv1.AccessServiceClient
}

func (noLogins) GetCredentials(context.Context, *platformv1.GetCredentialsRequest, ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	return &platformv1.GetCredentialsResponse{}, nil
}

// counting is a registry and a metrics service, each of which can be killed without an
// orderly stop.
type counting struct {
	t    *testing.T
	db   *sqldb.DB
	nats *nats.Conn
	dir  string
	up   *testkit.Registry
	keys *caller.Keychain
	plan *containerv1.Plan
}

func newCounting(t *testing.T, db *sqldb.DB, conn *nats.Conn) *counting {
	t.Helper()
	if err := db.Migrate(t.Context(), "metrics", metrics.Migrations()); err != nil {
		t.Fatal(err)
	}
	c := &counting{
		t: t, db: db, nats: conn, dir: t.TempDir(), up: testkit.NewRegistry(t, testkit.Open), keys: caller.NewKeychain(nil, noLogins{}),
	}
	img := testkit.Image(t, "amd64", true)
	c.up.Push(t, "library/x:v1", img)
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	digest := d.String()
	c.plan = &containerv1.Plan{
		Token: "abcdef", Name: "library/x", Reference: digest, Platform: "linux/amd64", Built: true,
		Source:     &containerv1.Source{Registry: c.up.Host, Repository: "library/x", Reference: digest},
		Identity:   &platformv1.Identity{Endpoint: "e", UserId: 1, Email: "Ada@Example.org"},
		Expiration: timestamppb.New(time.Now().Add(time.Hour)),
		Config: &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{
			Location: "https://files.example.org/client/v2.tar.gz", GzipDigest: digest, TarDigest: digest, GzipSize: new(int64(7)),
		}}},
	}
	return c
}

// metricsService starts a metrics service. The function kill stops it abruptly.
func (c *counting) metricsService() (kill func()) {
	s, err := metrics.New(metrics.Deps{DB: c.db, Bus: c.nats, Metrics: prometheus.NewRegistry(), Log: testkit.Log(c.t), Now: time.Now})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.background(s.Run)
}

func (c *counting) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	c.t.Cleanup(stop)
	return stop
}

// registry starts a registry. When killed, it leaves its spool as it is.
func (c *counting) registry(conn *nats.Conn) (h http.Handler, kill func()) {
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		c.t.Fatal(err)
	}
	reg, log := prometheus.NewRegistry(), testkit.Log(c.t)
	o := upstream.Options{Egress: egress, Plain: []string{c.up.Host}, Metrics: reg}
	r, err := registry.New(registry.Deps{
		Containers: oneImage{plan: c.plan}, Bus: conn, Upstream: upstream.New(o), Control: upstream.NewControl(o),
		Keychain: c.keys, Limiter: ratelimit.New(testkit.Redis(c.t), reg, log), Metrics: reg, Log: log, Now: time.Now,
		Settings: registry.Settings{
			LayerDir: filepath.Join(c.dir, "layers"), LayerCache: 1 << 20, ImageCache: 1 << 20,
			SpoolDir: filepath.Join(c.dir, "pulls"), FilesystemPrefix: "https://files.example.org/client/", PlatformURL: "e",
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	stop := c.background(r.Run)
	kill = sync.OnceFunc(func() {
		stop()
		if err := r.Close(); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(kill)
	return r, kill
}

// pull requests the manifest, as an engine does.
func (c *counting) pull(h http.Handler, method string) time.Duration {
	req := httptest.NewRequestWithContext(c.t.Context(), method, "/v2/wt/abcdef/library/x/manifests/"+c.plan.GetReference(), nil)
	req = req.WithContext(rpc.WithCall(req.Context(), rpc.Call{ClientIP: netip.MustParseAddr("192.0.2.1")}))
	w := httptest.NewRecorder()
	start := time.Now()
	h.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		c.t.Fatalf("a pull answered %d %s", w.Code, w.Body)
	}
	return time.Since(start)
}

func (c *counting) counted(metric string) (n int) {
	err := c.db.QueryRowContext(c.t.Context(), `
		SELECT COALESCE(SUM(events), 0) FROM metrics_counts WHERE metric = $1 AND day = '' AND org = 'example.org'`, metric).Scan(&n)
	if err != nil {
		c.t.Error(err)
	}
	return n
}

// used returns how often the user has caused an event.
func (c *counting) used(metric string) (n int) {
	err := c.db.QueryRowContext(c.t.Context(), `
		SELECT COALESCE(SUM(amount), 0) FROM metrics_usage WHERE metric = $1 AND user_id = 1 AND workspace_id = 0`, metric).Scan(&n)
	if err != nil {
		c.t.Error(err)
	}
	return n
}

// drained waits until the metrics service has taken everything from the bus.
func (c *counting) drained() {
	c.t.Helper()
	js, err := jetstream.New(c.nats)
	if err != nil {
		c.t.Fatal(err)
	}
	testkit.Until(c.t, "the end of the stream", func() error {
		stream, err := js.Stream(c.t.Context(), metricsbus.EventStream)
		if err == nil && stream.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d messages are left", stream.CachedInfo().State.Msgs)
		}
		return err
	})
}

// TestTenThousandPulls checks that pulls are counted exactly while the metrics service, the
// registry and NATS are restarted, and that no pull waits for any of them.
func TestTenThousandPulls(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		conn, away := testkit.UnsteadyNATS(t)
		c := newCounting(t, db, conn)
		kill := c.metricsService()
		h, killRegistry := c.registry(conn)
		const all, part = 10_000, 500
		var slowest time.Duration
		for n := range all / part {
			switch n % 5 {
			case 1:
				kill()
			case 2:
				away.Stop()
			case 3:
				kill = c.metricsService()
			case 4:
				away.Start()
				killRegistry()
				h, killRegistry = c.registry(conn)
				c.pull(h, http.MethodHead) // not charged; it warms the caches
			}
			for range part {
				slowest = max(slowest, c.pull(h, http.MethodGet))
			}
		}
		testkit.Until(t, "all of them", func() error {
			if p, f := c.counted("pulls"), c.counted("filesystem"); p < all || f < all {
				return fmt.Errorf("%d and %d of %d are counted", p, f, all)
			}
			return nil
		})
		killRegistry() // it publishes everything that was not confirmed
		c.drained()
		if p, f := c.counted("pulls"), c.counted("filesystem"); p != all || f != all {
			t.Errorf("%d pulls, %d with a file system client are counted", p, f)
		}
		if p, f := c.used("pulls"), c.used("filesystem"); p != all || f != all {
			t.Errorf("%d pulls, %d with a file system client are counted for the user", p, f)
		}
		t.Log("the slowest pull took", slowest)
	})
}

// TestPullsAreVisibleSoon checks that pulls are counted within 2 s if everything works.
func TestPullsAreVisibleSoon(t *testing.T) {
	t.Parallel()
	c := newCounting(t, testkit.SQLite(t), testkit.NATS(t))
	c.metricsService()
	h, _ := c.registry(c.nats)
	for n := range 5 {
		c.pull(h, http.MethodGet)
		start := time.Now()
		testkit.Until(t, "its count", func() error {
			if now := c.counted("pulls"); now != n+1 {
				return fmt.Errorf("%d are counted", now)
			}
			return nil
		})
		if took := time.Since(start); n > 0 && took > 2*time.Second {
			t.Errorf("pull %d was visible after %s", n, took)
		}
	}
}
