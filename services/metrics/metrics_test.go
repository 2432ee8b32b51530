package metrics_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/metricsbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/metrics"
)

// A deployment holds what replicas of the service share.
type deployment struct {
	db       *sqldb.DB
	bus      *nats.Conn
	accounts string
}

func newDeployment(t *testing.T, db *sqldb.DB) *deployment {
	t.Helper()
	if err := db.Migrate(t.Context(), "metrics", metrics.Migrations()); err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(file, []byte("# accounts\n\nada:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &deployment{db: db, bus: testkit.NATS(t), accounts: file}
}

// replica starts a service, and returns a client and a function that stops the service.
func (p *deployment) replica(t *testing.T) (client metricsv1.MetricsServiceClient, kill func()) {
	t.Helper()
	s, err := metrics.New(metrics.Deps{
		DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now, Accounts: p.accounts,
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, hangUp := testkit.Serve(t, s.Register, "gateway")
	end := testkit.Run(t, s.Run)
	return metricsv1.NewMetricsServiceClient(conn), func() { end(); hangUp() }
}

// as returns a context with a login; "" means none.
func as(ctx context.Context, login string) context.Context {
	if login == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login)))
}

// publish publishes events of a source, and waits for the stream if needed.
func publish(t *testing.T, conn *nats.Conn, b *metricsv1.Batch) {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the metrics service", func() error {
		_, err := js.Publish(t.Context(), metricsbus.Events, raw)
		return err
	})
}

// pulls returns n events of an organisation on a day, counted from 2026-02-27.
func pulls(n int, days int32, org string) []*metricsv1.Event {
	return events(metricsv1.Metric_METRIC_PULLS, n, days, org)
}

func events(m metricsv1.Metric, n int, days int32, org string) []*metricsv1.Event {
	day := int32(time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	list := make([]*metricsv1.Event, n)
	for i := range list {
		list[i] = &metricsv1.Event{Metric: m, Day: day + days, Org: org}
	}
	return list
}

func join(lists ...[]*metricsv1.Event) (all []*metricsv1.Event) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func response(metric string, count float64, orgs map[string]float64) *metricsv1.CountPullsResponse {
	r := &metricsv1.CountPullsResponse{Count: &count, Orgs: orgs}
	if metric != "" {
		r.Metric = &metric
	}
	return r
}

// waitFor waits until the response to a request is as wanted.
func waitFor(t *testing.T, c metricsv1.MetricsServiceClient, req *metricsv1.CountPullsRequest, want *metricsv1.CountPullsResponse) {
	t.Helper()
	testkit.Until(t, "the metrics service", func() error {
		got, err := c.CountPulls(as(t.Context(), "ada:secret"), req)
		if err != nil {
			return err
		}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			return fmt.Errorf("%v: %s", req, d)
		}
		return nil
	})
}

func TestForms(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		c, _ := p.replica(t)
		waitFor(t, c, &metricsv1.CountPullsRequest{}, response("pulls", 0, nil))
		publish(t, p.bus, &metricsv1.Batch{Source: "s", First: 1, Events: join(
			pulls(3, 0, "a.org"), pulls(2, 0, "b.org"), pulls(1, 0, ""), pulls(4, 1, "a.org"), pulls(1, 2, ""),
			events(metricsv1.Metric_METRIC_BUILDS, 2, 0, "a.org"), events(metricsv1.Metric_METRIC_FILESYSTEM, 1, 0, "b.org"), events(99, 5, 0, "a.org"),
		)})
		for _, q := range []struct {
			date, org string
			want      *metricsv1.CountPullsResponse
		}{
			{"", "", response("pulls", 11, map[string]float64{"a.org": 7, "b.org": 2})},
			{"2026-02-27", "", response("pulls", 6, map[string]float64{"a.org": 3, "b.org": 2})},
			{"2026-03-01", "", response("pulls", 1, nil)},
			{"2020-02-29", "", response("pulls", 0, nil)},
			{"", "a.org", response("pulls", 7, map[string]float64{"a.org": 7})},
			{"", "A.ORG", response("pulls", 7, map[string]float64{"a.org": 7})},
			{"", "none.org", response("pulls", 0, map[string]float64{"none.org": 0})},
			{"2026-02-28", "a.org", response("", 4, nil)},
			{"2026-02-28", "b.org", response("", 0, nil)},
		} {
			waitFor(t, c, &metricsv1.CountPullsRequest{Date: q.date, Org: q.org}, q.want)
		}
		ctx := as(t.Context(), "ada:secret")
		b, err := c.CountBuilds(ctx, &metricsv1.CountBuildsRequest{})
		if err != nil || b.GetMetric() != "builds" || b.GetCount() != 2 || b.GetOrgs()["a.org"] != 2 {
			t.Errorf("builds: %v %v", b, err)
		}
		f, err := c.CountFilesystemPulls(ctx, &metricsv1.CountFilesystemPullsRequest{})
		if err != nil || f.GetMetric() != "filesystem" || f.GetCount() != 1 || f.GetOrgs()["b.org"] != 1 {
			t.Errorf("filesystem: %v %v", f, err)
		}
	})
}

// TestRepeats publishes events of a source again in other batches, and with gaps.
func TestRepeats(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		c, _ := p.replica(t)
		for _, b := range []struct{ first, n int }{{1, 5}, {1, 5}, {3, 4}, {6, 1}, {1, 9}, {2, 3}, {100, 10}, {50, 20}, {105, 10}} {
			publish(t, p.bus, &metricsv1.Batch{Source: "s", First: int64(b.first), Events: pulls(b.n, 0, "a.org")})
		}
		publish(t, p.bus, &metricsv1.Batch{Source: "other", First: 1, Events: pulls(1000, 0, "b.org")})
		waitFor(t, c, &metricsv1.CountPullsRequest{}, response("pulls", 1024, map[string]float64{"a.org": 9 + 10 + 5, "b.org": 1000}))
	})
}

// TestReplicas counts with several replicas, which are stopped one after the other.
func TestReplicas(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		c, _ := p.replica(t)
		_, kill := p.replica(t)
		for i := range 100 {
			b := &metricsv1.Batch{Source: fmt.Sprint("s", i%3), First: int64(1 + 20*(i/3)), Events: pulls(20, 0, "a.org")}
			publish(t, p.bus, b)
			if i%10 == 0 {
				publish(t, p.bus, b)
				kill()
				_, kill = p.replica(t)
			}
		}
		waitFor(t, c, &metricsv1.CountPullsRequest{}, response("pulls", 2000, map[string]float64{"a.org": 2000}))
	})
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	on, _ := p.replica(t)
	p.accounts = ""
	off, _ := p.replica(t)
	for _, q := range []struct {
		name, login, date string
		client            metricsv1.MetricsServiceClient
		want              error
	}{
		{"anonymous", "", "", on, fault.Unauthenticated},
		{"a wrong password", "ada:wrong", "", on, fault.Unauthenticated},
		{"a wrong name", "eve:secret", "", on, fault.Unauthenticated},
		{"no password", "ada", "", on, fault.Unauthenticated},
		{"right", "ada:secret", "", on, nil},
		{"right again", "ada:secret", "", on, nil},
		{"wrong after right", "ada:secret2", "", on, fault.Unauthenticated},
		{"a day", "ada:secret", "2024-02-29", on, nil},
		{"no day", "ada:secret", "2026-02-29", on, fault.Invalid},
		{"short form", "ada:secret", "2026-2-9", on, fault.Invalid},
		{"another form", "ada:secret", "2026-02-09T00:00:00Z", on, fault.Invalid},
		{"anonymous with an invalid day", "", "x", on, fault.Unauthenticated},
		{"no accounts", "ada:secret", "", off, fault.Unauthenticated},
	} {
		_, err := q.client.CountPulls(as(t.Context(), q.login), &metricsv1.CountPullsRequest{Date: q.date})
		if !errors.Is(err, q.want) {
			t.Errorf("%s: %v, want %v", q.name, err, q.want)
		}
	}
}

func TestInvalidAccountsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "accounts")
	for _, content := range []string{"ada:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "ada\n", ":$2y$05$x\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := metrics.New(metrics.Deps{Accounts: file, Metrics: prometheus.NewRegistry()})
		if err == nil {
			t.Errorf("%q was accepted", content)
		}
	}
}

// TestRealServer kills and restarts a NATS server while events are counted.
func TestRealServer(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a nats-server: set SLIPWAY_TEST_REAL")
	}
	server := testkit.StartNATS(t)
	p := newDeployment(t, testkit.Postgres(t))
	var err error
	if p.bus, err = bus.Connect(server.URL, testkit.Log(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.bus.Close)
	c, _ := p.replica(t)
	for i := range 60 {
		publish(t, p.bus, &metricsv1.Batch{Source: "s", First: int64(1 + 10*i), Events: pulls(10, 0, "a.org")})
		if i%20 == 10 {
			server.Kill()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	waitFor(t, c, &metricsv1.CountPullsRequest{}, response("pulls", 600, map[string]float64{"a.org": 600}))
}

// BenchmarkYear reads the counts of a year of 5,000 organisations with each form of query.
func BenchmarkYear(b *testing.B) {
	for _, engine := range []string{"sqlite", "postgres"} {
		b.Run(engine, func(b *testing.B) {
			if engine == "postgres" && !testkit.Real() {
				b.Skip("set SLIPWAY_TEST_REAL")
			}
			db := testkit.SQLite(b)
			if engine == "postgres" {
				db = testkit.Postgres(b)
			}
			year(b, db)
		})
	}
}

func year(b *testing.B, db *sqldb.DB) {
	b.Helper()
	if err := db.Migrate(b.Context(), "metrics", metrics.Migrations()); err != nil {
		b.Fatal(err)
	}
	for _, fill := range []string{
		`WITH RECURSIVE o (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM o WHERE n < 5000), d (n) AS (SELECT 100 UNION ALL SELECT n + 1 FROM d WHERE n < 464)
			INSERT INTO metrics_counts (metric, day, org, events) SELECT 'pulls', '2026-' || d.n, 'organisation' || o.n || '.org', 7 FROM d, o`,
		`INSERT INTO metrics_counts (metric, day, org, events) SELECT metric, '', org, SUM(events) FROM metrics_counts GROUP BY metric, org`,
		`UPDATE metrics_counts SET day = '2026-02-28' WHERE day = '2026-300'`,
		`ANALYZE`,
	} {
		if _, err := db.ExecContext(b.Context(), fill); err != nil {
			b.Fatal(err)
		}
	}
	s := metrics.NewForBench(b, db)
	for _, q := range []*metricsv1.CountPullsRequest{{}, {Date: "2026-02-28"}, {Org: "organisation77.org"}, {Date: "2026-02-28", Org: "organisation77.org"}} {
		b.Run("date="+q.GetDate()+",org="+q.GetOrg(), func(b *testing.B) {
			for b.Loop() {
				r, err := s(b.Context(), q.GetDate(), q.GetOrg())
				if err != nil || r == 0 {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// TestGetStorage reads the sizes of the stores, which are cached.
func TestGetStorage(t *testing.T) {
	t.Parallel()
	p, size := newDeployment(t, testkit.SQLite(t)), int64(5)
	s, err := metrics.New(metrics.Deps{
		DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now, Accounts: p.accounts,
		Stores: []metrics.Store{{Name: "images", Size: func() (int64, error) { return size, nil }}, {Name: "layers", Limit: 9, Size: func() (int64, error) { return 0, nil }}},
		Servers: []metrics.Server{
			{Name: "database", Space: func(context.Context) (int64, int64, error) { return 7, 0, nil }},
			{Name: "nats", Space: func(context.Context) (int64, int64, error) { return 1, 8, nil }},
			{Name: "down", Space: func(context.Context) (int64, int64, error) { return 0, 0, errors.New("no response") }},
		},
		Disks: []metrics.Disk{{Folder: "data_dir", Reserve: 1, Space: func() (int64, int64, error) { return 2, 3, nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := testkit.Serve(t, s.Register, "gateway")
	client := metricsv1.NewMetricsServiceClient(conn)
	for range 2 { // the second response is cached
		got, err := client.GetStorage(as(t.Context(), "ada:secret"), &metricsv1.GetStorageRequest{})
		want := &metricsv1.GetStorageResponse{Stores: []*metricsv1.Store{
			{Name: proto.String("images"), Size: proto.Float64(5)}, {Name: proto.String("layers"), Size: proto.Float64(0), Limit: proto.Float64(9)},
			{Name: proto.String("database"), Size: proto.Float64(7)}, {Name: proto.String("nats"), Size: proto.Float64(1), Limit: proto.Float64(8)}, {Name: proto.String("down")},
		}, Disks: []*metricsv1.Disk{{Folder: proto.String("data_dir"), Free: proto.Float64(2), Size: proto.Float64(3), Reserve: proto.Float64(1)}}}
		if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		size *= 2
	}
	if _, err := client.GetStorage(t.Context(), &metricsv1.GetStorageRequest{}); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("anonymous: %v", err)
	}
}

// accounts is a platform whose access tokens are the names of their owners. Only grace is an
// administrator.
type accounts struct {
	metrics.Platform
}

func (accounts) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	switch {
	case !slices.Equal(req.GetScopes(), []string{"admin"}):
		return nil, fault.Denied.Newf("the scopes are %q", req.GetScopes())
	case req.GetAccessToken() == "grace":
		return &platformv1.AuthorizeResponse{Administrator: true}, nil
	case req.GetAccessToken() == "eve":
		return &platformv1.AuthorizeResponse{}, nil
	}
	return nil, fault.Unauthenticated.Newf("The token is not known")
}

// TestGetHealth reads the state of the process, which is examined once for many calls. Only
// administrators may read it.
func TestGetHealth(t *testing.T) {
	t.Parallel()
	p, now, examined := newDeployment(t, testkit.SQLite(t)), time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC), 0
	serve := func(platform metrics.Platform) metricsv1.MetricsServiceClient {
		s, err := metrics.New(metrics.Deps{
			DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: func() time.Time { return now }, Accounts: p.accounts, Platform: platform,
			Health: func(context.Context) metrics.Health {
				examined++
				return metrics.Health{
					Dependencies: []metrics.Dependency{{Name: "database", Required: true}, {Name: "nats", Problem: "not connected"}},
					Certificates: []metrics.Certificate{{Setting: "tls_cert_file", End: now.Add(time.Hour)}},
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		conn, _ := testkit.Serve(t, s.Register, "gateway")
		return metricsv1.NewMetricsServiceClient(conn)
	}
	client, alone := serve(accounts{}), serve(nil)
	call := func(client metricsv1.MetricsServiceClient, authorization string) (*metricsv1.GetHealthResponse, error) {
		return client.GetHealth(metadata.AppendToOutgoingContext(t.Context(), "authorization", authorization), &metricsv1.GetHealthRequest{})
	}
	account := "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:secret"))
	for _, c := range []struct {
		who           string
		client        metricsv1.MetricsServiceClient
		authorization string
		want          error
	}{
		{"anonymous", client, "", fault.Unauthenticated}, {"a metrics account", client, account, fault.Unauthenticated},
		{"another user", client, "Bearer eve", fault.Denied}, {"an unknown token", client, "Bearer x", fault.Unauthenticated},
		{"without a platform", alone, "Bearer grace", fault.Unauthenticated}, {"a metrics account without a platform", alone, account, fault.Unauthenticated},
	} {
		if got, err := call(c.client, c.authorization); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v", c.who, got, err)
		}
	}
	if examined != 0 {
		t.Error("the state was examined for callers who may not see it")
	}
	want := &metricsv1.GetHealthResponse{
		Time: timestamppb.New(now), Dependencies: []*metricsv1.Dependency{
			{Name: new("database"), Works: new(true), Required: new(true)}, {Name: new("nats"), Works: new(false), Required: new(false), Problem: new("not connected")},
		}, Certificates: []*metricsv1.Certificate{{Setting: new("tls_cert_file"), ExpiryTime: timestamppb.New(now.Add(time.Hour))}},
	}
	for range 3 {
		got, err := call(client, "Bearer grace")
		if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	if examined != 1 {
		t.Errorf("the state was examined %d times", examined)
	}
}

// TestAttackStorage checks that disconnected callers and failures start no further measurement.
func TestAttackStorage(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	var walks, age atomic.Int64
	begun, end := make(chan struct{}), make(chan struct{})
	s, err := metrics.New(metrics.Deps{
		DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Accounts: p.accounts,
		Now: func() time.Time { return time.Unix(1_800_000_000+age.Load(), 0) },
		Stores: []metrics.Store{{Name: "images", Size: func() (int64, error) {
			if walks.Add(1) == 1 {
				close(begun)
			}
			<-end
			return 0, errors.New("the disk is broken")
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := testkit.Serve(t, s.Register, "gateway")
	client := metricsv1.NewMetricsServiceClient(conn)
	call := func(ctx context.Context) error {
		_, err := client.GetStorage(as(ctx, "ada:secret"), &metricsv1.GetStorageRequest{})
		return err
	}
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { first <- call(ctx) }()
	<-begun
	cancel()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); err == nil {
			t.Error("a call does not wait for the measurement")
		}
		cancel()
	}
	close(end)
	<-first
	for range 20 {
		if err := call(t.Context()); err == nil {
			t.Error("a failed measurement has a result")
		}
	}
	if n := walks.Load(); n != 1 {
		t.Errorf("the stores were measured %d times", n)
	}
	age.Store(10)
	if err := call(t.Context()); err == nil || walks.Load() != 2 {
		t.Errorf("after 10 seconds the stores have been measured %d times, %v", walks.Load(), err)
	}
}
