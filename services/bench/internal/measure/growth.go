package measure

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// A growth is something whose number must not make calls slower.
type growth struct {
	name string
	// least is the number to compare with; 10 and 100 times of it follow.
	least int
	// grown returns a server that has n of them, and the calls to make.
	grown func(w *world.World, n int) (*slipwayd.Server, []namedLoad)
}

// A namedLoad is a load with its name in figures.
type namedLoad struct {
	name string
	load.Load
}

func growths() []growth {
	return []growth{
		{"requests", 1_000, manyRequests},
		{"builds", 1_000, manyBuilds},
		{"packages of a channel", 1_000, manyPackages},
		{"streams of events", 10, manyStreams},
	}
}

// Growth makes the same calls to processes with 1, 10 and 100 times of what lies around them: requests, each with a token in
// Redis and a row in the database; builds in the database; packages in the index of a channel; and open streams of events.
func Growth(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	w.Push(world.BaseImage)
	for _, g := range growths() {
		measureGrowth(w, s, g)
		w.StopStarted()
	}
}

func measureGrowth(w *world.World, s *figure.Sheet, g growth) {
	var turns []figure.Contender
	var names []string
	title := func(load string, times int) string { return fmt.Sprintf("%s with %d %s", load, times*g.least, g.name) }
	times := []int{1, 10, 100}
	servers := map[int]*slipwayd.Server{}
	for _, n := range times {
		server, calls := g.grown(w, n*g.least)
		servers[n] = server
		for _, c := range calls {
			c.Warm(w.Ctx)
			turns = append(turns, c.Turn(w.Ctx, title(c.name, n), server.Server, nil, nil))
			if n == 1 {
				names = append(names, c.name)
			}
		}
	}
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	for _, name := range names {
		for _, n := range times {
			s.Medians(r, title(name, n), figure.P50, figure.P99)
		}
		s.Ratio(r, title(name, 10), title(name, 1), figure.P99, figure.AtMost(1.3))
		s.Ratio(r, title(name, 100), title(name, 1), figure.P99, figure.AtMost(1.3))
	}
	for _, n := range times {
		s.Record(fmt.Sprintf("memory with %d %s", n*g.least, g.name), servers[n].Own(), "MB")
	}
	s.Check("memory, 100 times the "+g.name, servers[100].Own()/servers[1].Own(), "x", figure.AtMost(1.5))
}

// manyRequests makes requests. All calls are about another one.
func manyRequests(w *world.World, n int) (*slipwayd.Server, []namedLoad) {
	server := w.StartSlipway(w.RedisSetting()...)
	submit := server.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	must.Get(load.Load{Call: submit, Workers: 8, Count: n}.Run(w.Ctx))
	a := server.Submit(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	name := engine.At(a.TargetImage)
	digest, _, err := name.Child(w.Ctx, engine.New())
	must.Do(err)
	return server, []namedLoad{
		{"request", load.Load{Call: submit, Workers: 4, Count: w.Requests / 10}},
		{"status", load.Load{Call: load.Get(server.URL("/v1alpha2/container/" + a.RequestID + "/status")), Workers: 4, Count: w.Requests / 10}},
		{"pull", load.Load{Call: load.Get(name.Manifest(digest)), Workers: 4, Count: w.Requests / 4}},
	}
}

// manyBuilds adds builds to the database of a process, of which a tenth are those of the user who lists them.
func manyBuilds(w *world.World, n int) (*slipwayd.Server, []namedLoad) {
	server := w.StartSlipway("SLIPWAY_DATABASE_URL=")
	submit := server.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	submit.Token = server.Token()
	must.Get(load.Once(load.Client(server.URL("/"), 1), submit))
	server.Stop()
	db := must.Get(sql.Open("sqlite", filepath.Join(server.Data, "slipway.db")))
	_, err := db.ExecContext(w.Ctx, fmt.Sprintf(`WITH RECURSIVE series(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM series WHERE g < %d)
		INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner, endpoint, user_id, workspace_id, email,
			client_ip, request, trace_parent, time_limit, created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket, succeeded, reason, message, digest, counted, solve_at)
		SELECT printf('%%016x', g) || '_1', printf('%%016x', g), 1, printf('%%064x', g), 'registry.example.org/built:' || g, '', 'COMPLETED', 'conda', 'amd64',
			'user', r.endpoint, 1 + g %% 10, 0, '', '', '', '', 1000000, r.created_at - g * 1000000, 1, 1, 1, r.created_at, 1, '', '', true, '', '', 'sha256:' || printf('%%064x', g), -1, 0
		FROM (SELECT * FROM container_requests LIMIT 1) r, series`, n))
	must.Do(errors.Join(err, db.Close()))
	again := &slipwayd.Server{Server: w.Start(server.Command)}
	list := load.Get(again.URL("/v1alpha1/builds?max=50"))
	list.Token = again.Token()
	return again, []namedLoad{
		{"list of builds", load.Load{Call: list, Workers: 4, Count: w.Requests / 20}},
		{"description of a build", load.Load{Call: load.Get(again.URL("/v1alpha1/builds/" + fmt.Sprintf("%016x_1", n/2))), Workers: 4, Count: w.Requests / 10}},
	}
}

// manyPackages starts a process that knows a channel of n packages.
func manyPackages(w *world.World, n int) (*slipwayd.Server, []namedLoad) {
	server := w.StartSlipway("SLIPWAY_CONDA_CHANNEL_ALIAS=" + madeUpChannel(w.Ctx, n))
	solve := load.Post(server.URL("/v1alpha1/conda/lock"), `{"packages":{"type":"CONDA","entries":["needle"],"channels":["bench"]},"platforms":["linux/amd64"]}`)
	search := load.Get(server.URL("/v1alpha1/conda/packages?q=needle&channel=bench"))
	must.Get(load.Once(load.Client(server.URL("/"), 1), solve))
	return server, []namedLoad{
		{"solve", load.Load{Call: solve, Workers: 4, Count: max(100, w.Requests/100)}},
		{"search", load.Load{Call: search, Workers: 4, Count: max(100, w.Requests/100)}},
	}
}

// manyStreams opens streams of the events of a build, which does not end.
func manyStreams(w *world.World, n int) (*slipwayd.Server, []namedLoad) {
	server := w.StartSlipway("SLIPWAY_CONDA_CHANNEL_ALIAS="+madeUpChannel(w.Ctx, 10), "SLIPWAY_TRUSTED_PROXIES=127.0.0.1")
	a := server.Submit(fmt.Sprintf(`{"packages":{"type":"CONDA","entries":["needle"],"channels":["bench"],"condaOpts":{"baseImage":%q,"basePackages":""}}}`, w.Up.Addr+"/"+world.BaseImage))
	build := buildOf(w, server, a.RequestID)
	client := engine.New()
	opened := make(chan error)
	for i := range n {
		go func() {
			req, err := http.NewRequestWithContext(w.Ctx, http.MethodGet, server.URL("/v1alpha1/builds/"+build+"/events"), http.NoBody)
			if err != nil {
				opened <- err
				return
			}
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i%250)) // the streams of one client are limited
			resp, err := client.Do(req)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("a stream is %s", resp.Status)
			}
			opened <- err
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // until the server ends
				_ = resp.Body.Close()
			}
		}()
	}
	for range n {
		must.Do(<-opened)
	}
	submit := server.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	return server, []namedLoad{
		{"request", load.Load{Call: submit, Workers: 4, Count: w.Requests / 10}},
		{"status", load.Load{Call: load.Get(server.URL("/v1alpha2/container/" + a.RequestID + "/status")), Workers: 4, Count: w.Requests / 10}},
	}
}

// madeUpChannel serves the list of a channel "bench" with n packages, each of which needs the one before, up to ten; the last is
// named needle. Downloads of packages do not end before the program.
func madeUpChannel(ctx context.Context, n int) string {
	packages := map[string]any{}
	for i := range n {
		name, depends := fmt.Sprintf("package-%d", i), []string{}
		switch {
		case i == n-1:
			name, depends = "needle", append(depends, "package-7")
		case i%10 > 0:
			depends = append(depends, fmt.Sprintf("package-%d", i-1))
		}
		packages[name+"-1.0-0.conda"] = map[string]any{
			"name": name, "version": "1.0", "build": "0", "build_number": 0, "depends": depends, "subdir": "linux-64",
			"size": 1000, "sha256": fmt.Sprintf("%064x", i), "md5": fmt.Sprintf("%032x", i), "timestamp": 1_700_000_000_000,
		}
	}
	list := must.Get(json.Marshal(map[string]any{"packages": map[string]any{}, "packages.conda": packages}))
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/bench/linux-64/repodata.json":
			http.ServeContent(w, r, "repodata.json", time.Time{}, strings.NewReader(string(list)))
		case strings.HasSuffix(r.URL.Path, ".conda"):
			select {
			case <-ctx.Done():
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	context.AfterFunc(ctx, served.Close)
	return served.URL
}
