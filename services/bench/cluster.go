package main

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
)

// cluster is slipwayd with a process for each replica of a role, as on Kubernetes, on
// real Redis, NATS and PostgreSQL. There is no ingress: the load picks the replicas.
type cluster struct {
	// roles are the replicas by role; stores Redis, NATS and PostgreSQL by name.
	roles  map[string][]*slipwayServer
	stores map[string]*server
	// front is the host of the names that requests return, where nobody listens.
	front, token string
	// monitor is NATS' own page of figures.
	monitor string
}

// startCluster starts so many replicas of the roles that pulls and requests go through.
func (w *world) startCluster(replicas int) *cluster {
	if postgresPrograms() == "" || w.redisSetting() == nil {
		fail("capacity is measured on real servers (apt-get install redis-server nats-server postgresql)")
	}
	c := &cluster{roles: map[string][]*slipwayServer{}, front: "names.invalid", token: newToken()}
	nats, pg := w.startNATS(c), w.startPostgres()
	c.stores = map[string]*server{"Redis": w.redis, "NATS": nats, "PostgreSQL": pg}
	shared := []string{
		"SLIPWAY_DATABASE_URL=" + pg.addr, "SLIPWAY_NATS_URL=nats://" + nats.addr, "SLIPWAY_REDIS_URL=redis://" + w.redis.addr,
		"SLIPWAY_PUBLIC_URL=https://" + c.front, "SLIPWAY_ADMIN_TOKEN_FILE=" + w.file("admin-token", c.token),
		"SLIPWAY_RPC_SECRET_FILE=" + w.file("rpc-secret", rand.Text()), "SLIPWAY_BUILD_REPOSITORY=" + w.up.addr + "/bench/built",
	}
	platform := w.startRole(c, "platform", shared)
	shared = append(shared, "SLIPWAY_PLATFORM_ADDR="+platform)
	shared = append(shared, "SLIPWAY_BUILD_ADDR="+w.startRole(c, "build", shared))
	inspect := "SLIPWAY_INSPECT_ADDR=" + w.startRole(c, "inspect", shared)
	metrics := "SLIPWAY_METRICS_ADDR=" + w.startRole(c, "metrics", shared)
	for range replicas {
		own := append(slices.Clone(shared), "SLIPWAY_CONTAINER_ADDR="+w.startRole(c, "container", shared))
		if len(c.roles["builder"]) == 0 {
			w.startRole(c, "builder", own)
		}
		w.startRole(c, "registry", own)
		w.startRole(c, "gateway", append(own, inspect, metrics))
	}
	return c
}

// newToken is an access token of the platform's form.
func newToken() string {
	secret := make([]byte, 20)
	_, _ = rand.Read(secret) // never fails
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"tid":1}.%x`, secret))
}

// startRole starts one more replica, and returns where it offers its gRPC services.
func (w *world) startRole(c *cluster, role string, env []string) string {
	rpc := freeAddr()
	process := w.slipwayCommand(append(slices.Clone(env), "SLIPWAY_GRPC_ADDR="+rpc)...)
	process.name, process.args = role, append(process.args, role)
	c.roles[role] = append(c.roles[role], &slipwayServer{w.start(process)})
	return rpc
}

func (w *world) startNATS(c *cluster) *server {
	path, err := exec.LookPath("nats-server")
	if err != nil {
		fail("there is no NATS (apt-get install nats-server): %w", err)
	}
	addr, monitor := freeAddr(), freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	_, figures, _ := net.SplitHostPort(monitor)
	c.monitor = "http://" + monitor + "/varz"
	return w.start(command{
		name: "nats", path: path, addr: addr, ready: answers("http://" + monitor + "/healthz"),
		args: []string{"-a", "127.0.0.1", "-p", port, "-m", figures, "-js", "-sd", must(os.MkdirTemp(w.dir, "nats-"))},
	})
}

// reading is what has been used since the cluster began, by what it is of.
type reading map[quantity]float64

// quantity is a resource of a role or a store.
type quantity struct{ of, what, unit string }

// read looks at every process and every store.
func (c *cluster) read(w *world) reading {
	r := reading{}
	for name, replicas := range c.roles {
		for _, s := range replicas {
			r[quantity{name, "cpu", "us"}] += s.treeCPU() * 1e6
		}
	}
	for name, s := range c.stores {
		r[quantity{name, "cpu", "us"}] = s.treeCPU() * 1e6
	}
	r[quantity{"Redis", "commands", ""}] = c.redisCommands(w.ctx)
	r[quantity{"NATS", "messages", ""}] = c.natsMessages(w.ctx)
	r[quantity{"PostgreSQL", "commits", ""}], r[quantity{"PostgreSQL", "log", "B"}] = c.postgresWrites(w.ctx)
	for _, role := range []string{"registry", "container"} {
		for _, s := range c.roles[role] {
			r[quantity{"upstream", "requests", ""}] += w.counter(s, "slipway_upstream_answers_total")
		}
	}
	return r
}

// since is what was used after an earlier reading.
func (r reading) since(before reading) reading {
	out := maps.Clone(r)
	for q := range out {
		out[q] -= before[q]
	}
	return out
}

func (c *cluster) redisCommands(ctx context.Context) float64 {
	client := redis.NewClient(&redis.Options{Addr: c.stores["Redis"].addr})
	defer client.Close()
	var n float64
	for _, line := range lines(must(client.Info(ctx, "stats").Result())) {
		_, _ = fmt.Sscanf(line, "total_commands_processed:%f", &n)
	}
	return n
}

func (c *cluster) natsMessages(ctx context.Context) float64 {
	var page struct {
		In float64 `json:"in_msgs"`
	}
	raw, _, err := read(ctx, http.DefaultClient, c.monitor)
	check(errors.Join(err, decode(raw, &page)))
	return page.In
}

// postgresWrites counts transactions that wrote, each of which waits for the disk, and
// the bytes of the write-ahead log.
func (c *cluster) postgresWrites(ctx context.Context) (commits, log float64) {
	db := must(pgx.Connect(ctx, c.stores["PostgreSQL"].addr))
	defer db.Close(ctx)
	check(db.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8`).Scan(&commits, &log))
	return commits, log
}

// spread is a call of each replica of a role, by its URL.
func (c *cluster) spread(role string, of func(*slipwayServer) call) (calls []call) {
	for _, s := range c.roles[role] {
		calls = append(calls, of(s))
	}
	return calls
}

// elsewhere is a URL at another host.
func elsewhere(at, host string) string {
	u := must(url.Parse(at))
	u.Host = host
	return u.String()
}
