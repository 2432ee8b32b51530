package measure

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // with the SQLite driver

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// The sizes of a large installation.
const (
	fleetUsers    = 10_000
	fleetOrgs     = 500
	fleetRequests = 1_000_000
	fleetBuilds   = 200_000
	fleetAudit    = 10_000_000
)

// Fleet measures a process per role with PostgreSQL, Redis and NATS, with the data of a large
// installation, against the same processes with an empty database. Then it measures the audit
// trail, `slipwayd migrate --from` and `slipwayd backup`.
func Fleet(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	empty, full := startCluster(w, 1), startCluster(w, 1)
	seed := &seeder{w: w, db: must.Get(pgx.Connect(w.Ctx, full.stores["PostgreSQL"].Addr))}
	defer seed.db.Close(w.Ctx)
	seed.fleet(full)
	s.Remark = fmt.Sprintf("%d users, %d organisations, %d requests, %d builds", fleetUsers, fleetOrgs, fleetRequests, fleetBuilds)
	compareClusters(w, s, empty, full)
	seed.audit()
	s.Remark = fmt.Sprintf("%d events", fleetAudit)
	audited := load.Load{Call: full.admin("/api/admin/audit?max=50&actor=user-77&action=credentials.*"), Workers: 1, Count: 500}
	r := figure.Alternate(w.Ctx, w.Rounds, audited.Turn(w.Ctx, "filtered page of the audit trail", full.roles["gateway"][0].Server, nil, nil))
	s.Median(r, "filtered page of the audit trail", figure.P99, figure.AtMost(50))
	seed.db.Close(w.Ctx)
	w.StopStarted()
	moveLarge(w, s)
}

// admin returns a call of the first gateway with the administrator's token.
func (c *cluster) admin(path string) load.Call {
	return load.Call{Method: http.MethodGet, URL: c.roles["gateway"][0].URL(path), Token: c.token}
}

// compareClusters measures the calls of users on both clusters in turns.
func compareClusters(w *world.World, s *figure.Sheet, empty, full *cluster) {
	type work struct {
		name string
		load.Load
	}
	calls := func(c *cluster) []work {
		gateway := c.roles["gateway"][0]
		submit := gateway.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
		submit.Token = c.token
		a := gateway.Submit(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
		name := engine.At(a.TargetImage)
		name.Host = c.roles["registry"][0].Addr
		digest, _, err := name.Child(w.Ctx, engine.New())
		must.Do(err)
		return []work{
			{"submit", load.Load{Call: submit, Workers: 4, Count: w.Requests / 10}},
			{"list containers", load.Load{Call: c.admin("/v1alpha1/containers?max=50"), Workers: 4, Count: w.Requests / 20}},
			{"list builds", load.Load{Call: c.admin("/v1alpha1/builds?max=50"), Workers: 4, Count: w.Requests / 20}},
			{"list users", load.Load{Call: c.admin("/api/admin/users?max=50"), Workers: 4, Count: w.Requests / 40}},
			{"status", load.Load{Call: load.Get(gateway.URL("/v1alpha2/container/" + a.RequestID + "/status")), Workers: 4, Count: w.Requests / 10}},
			{"resolve", load.Load{Call: load.Get(name.Manifest(digest)), Workers: 4, Count: w.Requests / 4}},
		}
	}
	small, large := calls(empty), calls(full)
	var turns []figure.Contender
	for i := range small {
		turns = append(turns, small[i].Turn(w.Ctx, small[i].name+", empty", empty.roles["gateway"][0].Server, nil, nil),
			large[i].Turn(w.Ctx, large[i].name+", full", full.roles["gateway"][0].Server, nil, nil))
	}
	figure.Alternate(w.Ctx, 1, turns...) // warm-up
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	for _, work := range small {
		if work.name == "list users" { // the empty installation has one user
			s.Median(r, "list users, full", figure.P99, figure.AtMost(100))
			continue
		}
		s.Ratio(r, work.name+", full", work.name+", empty", figure.P99, figure.AtMost(1.3))
		s.Medians(r, work.name+", full", figure.P50, figure.P99)
		s.Medians(r, work.name+", empty", figure.P50, figure.P99)
	}
}

// A seeder fills a database with copies of rows that slipwayd has written.
type seeder struct {
	w  *world.World
	db *pgx.Conn
}

func (f *seeder) run(statements ...string) {
	for _, q := range statements {
		_, err := f.db.Exec(f.w.Ctx, q)
		must.Do(err)
	}
}

// fleet adds users, organisations, requests and builds.
func (f *seeder) fleet(c *cluster) {
	gateway := c.roles["gateway"][0]
	template := gateway.Submitting(slipwayd.RequestFor(f.w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	template.Token = c.token
	must.Get(load.Once(load.Client(gateway.URL("/"), 1), template))
	f.run(
		fmt.Sprintf(`INSERT INTO platform_users (id, user_name, email, created_at) SELECT 1000 + g, 'user-' || g, 'user-' || g || '@example.org', g FROM generate_series(1, %d) g`, fleetUsers),
		fmt.Sprintf(`INSERT INTO platform_orgs (id, name, name_key, full_name, description, location, website, created_at)
			SELECT 1000000 + g, 'org-' || g, 'org-' || g, 'Organisation ' || g, '', '', '', g FROM generate_series(1, %d) g`, fleetOrgs),
		fmt.Sprintf(`INSERT INTO platform_members (id, org_id, user_id, role, created_at)
			SELECT 2000000 + g, 1000001 + g %% %d, 1000 + g, CASE WHEN g <= %d THEN 'owner' ELSE 'member' END, g FROM generate_series(1, %d) g`, fleetOrgs, fleetOrgs, fleetUsers),
		fmt.Sprintf(`INSERT INTO platform_workspaces (id, org_id, name, name_key, full_name, description, visibility, created_at, updated_at)
			SELECT 3000000 + g, 1000000 + g, 'main', 'main', 'Main', '', 'PRIVATE', g, g FROM generate_series(1, %d) g`, fleetOrgs),
		copyRequests("encode(sha256(g::text::bytea), 'hex')", fmt.Sprintf("generate_series(1, %d) g", fleetRequests)),
		fmt.Sprintf(`INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner, endpoint, user_id, workspace_id, email,
				client_ip, request, trace_parent, time_limit, created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket, succeeded, reason, message, digest, counted, solve_at)
			SELECT substr(md5(g::text), 1, 16) || '_1', substr(md5(g::text), 1, 16), 1, encode(sha256(g::text::bytea), 'hex'), 'registry.example.org/built:' || g, '', 'COMPLETED', 'conda', 'amd64',
				'user', r.endpoint, 1 + g %% %d, 0, '', '', '', '', 1000000, r.created_at - g::bigint * 1000000, 1, 1, 1, r.created_at, 1, '', '', true, '', '', 'sha256:' || encode(sha256(g::text::bytea), 'hex'), -1, 0
			FROM (SELECT * FROM container_requests LIMIT 1) r, generate_series(1, %d) g`, fleetUsers, fleetBuilds),
		`ANALYZE`,
	)
}

// copyRequests returns a statement that copies one request many times, for different users. id is
// the expression of its key, and series the rows g.
func copyRequests(id, series string) string {
	return fmt.Sprintf(`INSERT INTO container_requests (id, created_at, expires_at, revoked_at, revocation_sent, endpoint, user_id, workspace_id, email, client_ip, build_id, workflow_id, request, plan)
		SELECT %s, r.created_at - g, r.expires_at, 0, false, r.endpoint, 1 + g %% %d, 0, '', '127.0.0.1', '', '', r.request, r.plan
		FROM (SELECT * FROM container_requests LIMIT 1) r, %s`, id, fleetUsers, series)
}

// audit adds events to the audit trail, as the previous release wrote them: without hashes.
func (f *seeder) audit() {
	f.run(fmt.Sprintf(`INSERT INTO platform_audit (sequence, at, user_id, actor, client, org_id, workspace_id, action, subject, refused, reason, old_values, new_values, request_id)
		SELECT -g, g, 1000 + g %% %d, 'user-' || g %% %d, '192.0.2.7', 0, 0, (ARRAY['credentials.read', 'user.signin', 'token.create', 'credentials.update'])[1 + g %% 4], 'subject', false, '', '', '', 'request'
		FROM generate_series(1, %d) g`, fleetUsers, fleetUsers, fleetAudit), `ANALYZE platform_audit`)
}

// moveLarge copies the database of one process to PostgreSQL, and backs it up while images are
// pulled.
func moveLarge(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	server := w.StartSlipway("SLIPWAY_DATABASE_URL=")
	name := server.Request(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	server.Stop()
	path := filepath.Join(server.Data, "slipway.db")
	seedSQLite(w, path)
	env := append(os.Environ(), server.Env...)

	again := server.Command
	source := &slipwayd.Server{Server: w.Start(again)}
	digest, _, err := name.Child(w.Ctx, engine.New())
	must.Do(err)
	pulls := load.Load{Call: load.Get(name.Manifest(digest)), Workers: 16, Count: 4000, Every: 5 * time.Millisecond}
	alone := figure.Contender{Name: "200 pulls a second", Run: func() figure.Sample { return must.Get(pulls.Run(w.Ctx)) }}
	var backups atomic.Int64
	beside := figure.Contender{Name: "200 pulls a second during a backup", Run: func() figure.Sample {
		stop, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
				}
				cmd := exec.CommandContext(w.Ctx, w.Binary, "backup", filepath.Join(w.Dir, fmt.Sprint("backup-", backups.Add(1))))
				cmd.Env = env
				if out, err := cmd.CombinedOutput(); err != nil {
					ended <- fmt.Errorf("backup: %w: %s", err, out)
					return
				}
			}
		}()
		sample := must.Get(pulls.Run(w.Ctx))
		close(stop)
		must.Do(<-ended)
		return sample
	}}
	r := figure.Alternate(w.Ctx, w.Rounds, alone, beside)
	s.Remark = fmt.Sprintf("SQLite with %d requests", fleetRequests)
	s.Ratio(r, beside.Name, alone.Name, figure.P99, figure.AtMost(1.5))
	s.Medians(r, alone.Name, figure.P99)
	s.Medians(r, beside.Name, figure.P99)
	s.Record("backups that ended", float64(backups.Load()), "")
	source.Stop()

	pg := w.StartPostgres()
	begin := time.Now()
	move := exec.CommandContext(w.Ctx, w.Binary, "migrate", "--from", "sqlite:"+path, "--database-url", pg.Addr)
	move.Dir = w.Dir
	if out, err := move.CombinedOutput(); err != nil {
		must.Fail("migrate: %w: %s", err, out)
	}
	s.Check("migrate", time.Since(begin).Seconds(), "s", figure.AtMost(300))
}

// seedSQLite adds requests to a SQLite database.
func seedSQLite(w *world.World, path string) {
	db := must.Get(sql.Open("sqlite", path))
	series := fmt.Sprintf("(WITH RECURSIVE n(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM n WHERE g < %d) SELECT g FROM n) AS series", fleetRequests)
	_, err := db.ExecContext(w.Ctx, copyRequests("printf('%064x', g)", series))
	must.Do(errors.Join(err, db.Close()))
}
