package measure

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// A cluster is slipwayd with a process for each replica of a role, as on Kubernetes, with
// real Redis, NATS and PostgreSQL. It has no ingress: the load selects the replicas.
type cluster struct {
	// roles maps roles to replicas. stores maps names to Redis, NATS and PostgreSQL.
	roles  map[string][]*slipwayd.Server
	stores map[string]*process.Server
	// front is the host in the names that requests return. No server listens there.
	front, token string
	// monitor is the URL of NATS's monitoring page.
	monitor string
}

// startCluster starts the given number of replicas of the roles that pulls and requests
// use.
func startCluster(w *world.World, replicas int) *cluster {
	if world.PostgresPrograms() == "" || w.RedisSetting() == nil {
		must.Fail("capacity is measured on real servers (apt-get install redis-server nats-server postgresql)")
	}
	c := &cluster{roles: map[string][]*slipwayd.Server{}, front: "names.invalid", token: newToken()}
	nats, pg := startNATS(w, c), w.StartPostgres()
	c.stores = map[string]*process.Server{"Redis": w.Redis, "NATS": nats, "PostgreSQL": pg}
	shared := []string{
		"SLIPWAY_DATABASE_URL=" + pg.Addr, "SLIPWAY_NATS_URL=nats://" + nats.Addr, "SLIPWAY_REDIS_URL=redis://" + w.Redis.Addr,
		"SLIPWAY_PUBLIC_URL=https://" + c.front, "SLIPWAY_ADMIN_TOKEN_FILE=" + w.File("admin-token", c.token),
		"SLIPWAY_RPC_SECRET_FILE=" + w.File("rpc-secret", rand.Text()), "SLIPWAY_BUILD_REPOSITORY=" + w.Up.Addr + "/bench/built",
	}
	platform := startRole(w, c, "platform", shared)
	shared = append(shared, "SLIPWAY_PLATFORM_ADDR="+platform)
	shared = append(shared, "SLIPWAY_BUILD_ADDR="+startRole(w, c, "build", shared))
	inspect := "SLIPWAY_INSPECT_ADDR=" + startRole(w, c, "inspect", shared)
	metrics := "SLIPWAY_METRICS_ADDR=" + startRole(w, c, "metrics", shared)
	for range replicas {
		own := append(slices.Clone(shared), "SLIPWAY_CONTAINER_ADDR="+startRole(w, c, "container", shared))
		if len(c.roles["builder"]) == 0 {
			startRole(w, c, "builder", own)
		}
		startRole(w, c, "registry", own)
		startRole(w, c, "gateway", append(own, inspect, metrics))
	}
	return c
}

// newToken returns an access token in the platform's format.
func newToken() string {
	secret := make([]byte, 20)
	_, _ = rand.Read(secret) // never fails
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"tid":1}.%x`, secret))
}

// startRole starts one more replica and returns the address of its gRPC services.
func startRole(w *world.World, c *cluster, role string, env []string) string {
	rpc := process.FreeAddr()
	process := w.SlipwayCommand(append(slices.Clone(env), "SLIPWAY_GRPC_ADDR="+rpc)...)
	process.Name, process.Args = role, append(process.Args, role)
	c.roles[role] = append(c.roles[role], &slipwayd.Server{Server: w.Start(process)})
	return rpc
}

func startNATS(w *world.World, c *cluster) *process.Server {
	path, err := exec.LookPath("nats-server")
	if err != nil {
		must.Fail("there is no NATS (apt-get install nats-server): %w", err)
	}
	addr, monitor := process.FreeAddr(), process.FreeAddr()
	_, port, _ := net.SplitHostPort(addr)
	_, figures, _ := net.SplitHostPort(monitor)
	c.monitor = "http://" + monitor + "/varz"
	return w.Start(process.Command{
		Name: "nats", Path: path, Addr: addr, Ready: process.RespondsAt("http://" + monitor + "/healthz"),
		Args: []string{"-a", "127.0.0.1", "-p", port, "-m", figures, "-js", "-sd", must.Get(os.MkdirTemp(w.Dir, "nats-"))},
	})
}

// A reading is the usage since the start of the cluster by quantity.
type reading map[quantity]float64

// A quantity is a resource of a role or a store.
type quantity struct{ of, what, unit string }

// read reads the usage of every process and every store.
func (c *cluster) read(w *world.World) reading {
	r := reading{}
	for name, replicas := range c.roles {
		for _, s := range replicas {
			r[quantity{name, "cpu", "us"}] += s.TreeCPU() * 1e6
		}
	}
	for name, s := range c.stores {
		r[quantity{name, "cpu", "us"}] = s.TreeCPU() * 1e6
	}
	r[quantity{"Redis", "commands", ""}] = c.redisCommands(w.Ctx)
	r[quantity{"NATS", "messages", ""}] = c.natsMessages(w.Ctx)
	r[quantity{"PostgreSQL", "commits", ""}], r[quantity{"PostgreSQL", "log", "B"}] = c.postgresWrites(w.Ctx)
	for _, role := range []string{"registry", "container"} {
		for _, s := range c.roles[role] {
			r[quantity{"upstream", "requests", ""}] += counter(w, s, "slipway_upstream_answers_total")
		}
	}
	return r
}

// since returns the usage since an earlier reading.
func (r reading) since(before reading) reading {
	out := maps.Clone(r)
	for q := range out {
		out[q] -= before[q]
	}
	return out
}

func (c *cluster) redisCommands(ctx context.Context) float64 {
	client := redis.NewClient(&redis.Options{Addr: c.stores["Redis"].Addr})
	defer client.Close()
	var n float64
	for _, line := range lines(must.Get(client.Info(ctx, "stats").Result())) {
		_, _ = fmt.Sscanf(line, "total_commands_processed:%f", &n)
	}
	return n
}

func (c *cluster) natsMessages(ctx context.Context) float64 {
	var page struct {
		In float64 `json:"in_msgs"`
	}
	raw, _, err := engine.Read(ctx, http.DefaultClient, c.monitor)
	must.Do(errors.Join(err, decode(raw, &page)))
	return page.In
}

// postgresWrites returns the number of transactions that wrote, each of which waits for the
// disk, and the bytes of the write-ahead log.
func (c *cluster) postgresWrites(ctx context.Context) (commits, log float64) {
	db := must.Get(pgx.Connect(ctx, c.stores["PostgreSQL"].Addr))
	defer db.Close(ctx)
	must.Do(db.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`).Scan(&commits, &log))
	return commits, log
}

// callsFor returns a call for each replica of a role, given its URL.
func (c *cluster) callsFor(role string, of func(*slipwayd.Server) load.Call) (calls []load.Call) {
	for _, s := range c.roles[role] {
		calls = append(calls, of(s))
	}
	return calls
}

// withHost returns a URL with another host.
func withHost(at, host string) string {
	u := must.Get(url.Parse(at))
	u.Host = host
	return u.String()
}
