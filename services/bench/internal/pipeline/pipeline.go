// Package pipeline measures what users of a pipeline wait for: the time from the first request to the first output of the last task. Its
// tasks run in many environments on several nodes, each of which has its own store and is connected by a link of limited speed.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// The size of a pipeline. Each node runs slots tasks at once.
const (
	tasks        = 1000
	environments = 60
	nodes        = 8
	slots        = 4
)

// The pipelines that a contender runs, one after another, without losing its stores between them.
const (
	cold   = "cold"
	shared = "80 % shared"
	again  = "again"
)

// The contenders.
const (
	nameMounted  = "slipway, mounted"
	nameOCI      = "slipway, OCI"
	nameSif      = "slipway, SIF"
	nameRattler  = "rattler on each node"
	nameBuildkit = "a Dockerfile each, BuildKit"
	nameSquash   = "tar2sqfs"
)

// A contender is a way to bring environments to nodes.
type contender struct {
	name string
	// order asks for an environment of packages of a release, and returns what nodes need to fetch it.
	order func(ctx context.Context, specs []string, release int) (string, error)
	// fetch makes the environment available on a node, which happens once. run runs a task in it, and returns what the task printed.
	fetch func(ctx context.Context, n *node, what string) error
	run   func(ctx context.Context, n *node, what, script string) (string, error)
	// key returns what is the same if a node need not fetch something again; nil is what order returned.
	key func(what string) string
	// orders limits the orders at once.
	orders int
	// registry is the folder where images are stored, which need not exist yet; "" if there is no registry.
	registry string
	// refresh makes the contender notice that the channel has changed; nil if it looks each time.
	refresh func()
	// stop ends what only this contender uses.
	stop func()
}

// A result is what one pipeline took.
type result struct {
	took time.Duration
	// head is the processor time of servers, and nodes that of all nodes, in seconds.
	head, nodes float64
	// link is the mean number of bytes that a node received, and stored what was added to the registry.
	link, stored float64
}

// Measure runs the pipelines of all contenders.
func Measure(w *world.World, s *figure.Sheet) {
	if os.Getuid() != 0 {
		must.Fail("nodes need root, for mounts and control groups")
	}
	w.Push(world.BaseImage)
	at := newPlan(w)
	defer at.channel.Close()
	s.Record("packages", float64(at.packages), "")
	s.Record("packages, packed", float64(at.packed)/1e6, "MB")
	s.Record("an environment, packed", float64(at.inEach)/environments/1e6, "MB")
	results := map[string]map[string]result{}
	for _, start := range []func(*world.World, *plan, *site) contender{mounted, perNode, squashes, asSif, inEngine, dockerfiles} {
		name, all := at.runAll(w, start)
		results[name] = all
		for _, p := range []string{cold, shared, again} {
			all[p].record(s, name, p)
		}
	}
	compare(s, results)
}

// record writes the figures of a pipeline.
func (r result) record(s *figure.Sheet, name, pipeline string) {
	fmt.Fprintf(os.Stderr, "bench: pipeline: %s: %s: %.1f s\n", name, pipeline, r.took.Seconds())
	s.Remark = fmt.Sprintf("%d tasks in %d environments on %d nodes", tasks, environments, nodes)
	s.RecordOf(name, pipeline+": time", r.took.Seconds(), "s")
	s.RecordOf(name, pipeline+": received by a node", r.link/1e6, "MB")
	s.RecordOf(name, pipeline+": added to the registry", r.stored/1e6, "MB")
	s.RecordOf(name, pipeline+": cpu of servers", r.head, "s")
	s.RecordOf(name, pipeline+": cpu of nodes", r.nodes, "s")
	s.Remark = ""
}

// compare compares the best way with Slipway and the best other one.
func compare(s *figure.Sheet, results map[string]map[string]result) {
	ours, others := []string{nameMounted, nameOCI, nameSif}, []string{nameRattler, nameBuildkit, nameSquash}
	least := func(names []string, pipeline string, of func(result) float64) (string, float64) {
		best, value := "", 0.0
		for _, name := range names {
			if v := of(results[name][pipeline]); best == "" || v < value {
				best, value = name, v
			}
		}
		return best, value
	}
	for _, c := range []struct {
		metric string
		others []string
		of     func(result) float64
		limit  float64
	}{
		{"time", others, func(r result) float64 { return r.took.Seconds() }, 0.35},
		{"received by a node", others, func(r result) float64 { return r.link }, 0.6},
		{"added to the registry", []string{nameBuildkit, nameSquash}, func(r result) float64 { return r.stored }, 0.3},
	} {
		for _, p := range []string{cold, shared, again} {
			own, mine := least(ours, p, c.of)
			other, theirs := least(c.others, p, c.of)
			bar := figure.Bar{}
			if p == cold {
				bar = figure.AtMost(c.limit)
			}
			s.Remark = own + " / " + other
			s.Check(p+": "+c.metric+", best / best other", mine/max(theirs, 1e-9), "x", bar)
		}
	}
	s.Remark = ""
}

// runAll runs the three pipelines of a contender, with new servers and nodes.
func (p *plan) runAll(w *world.World, start func(*world.World, *plan, *site) contender) (string, map[string]result) {
	at := newSite(w)
	defer at.close()
	c := start(w, p, at)
	defer c.stop()
	out := map[string]result{}
	p.current.Store(0)
	for i, name := range []string{cold, shared, again} {
		if release := int32(min(i, 1)); p.current.Swap(release) != release && c.refresh != nil {
			c.refresh()
		}
		out[name] = p.run(w, at, c, uint64(i))
	}
	return c.name, out
}

// run runs a pipeline with the current release of the channel.
func (p *plan) run(w *world.World, at *site, c contender, seed uint64) result {
	var out result
	headBefore, nodesBefore, linkBefore, storedBefore := at.head.used(), at.used(), at.received(), sizeOf(c.registry)
	began := time.Now()
	must.Do(p.runTasks(w.Ctx, at, c, seed))
	out.took = time.Since(began)
	out.head, out.nodes = at.head.used()-headBefore, at.used()-nodesBefore
	out.link = float64(at.received()-linkBefore) / nodes
	w.Pause(2 * time.Second) // what is pushed after the response
	out.stored = sizeOf(c.registry) - storedBefore
	return out
}

// An ordered environment is known when done is closed.
type ordered struct {
	what string
	err  error
	done chan struct{}
}

// runTasks orders all environments at once, and runs each node's tasks in order, as soon as the environment of a task is known.
func (p *plan) runTasks(ctx context.Context, at *site, c contender, seed uint64) error {
	all, ctx := errgroup.WithContext(ctx)
	made, free := make([]ordered, environments), make(chan struct{}, c.orders)
	for i := range made {
		made[i].done = make(chan struct{})
		all.Go(func() error {
			defer close(made[i].done)
			free <- struct{}{}
			defer func() { <-free }()
			made[i].what, made[i].err = c.order(ctx, p.environments[i], int(p.current.Load()))
			return made[i].err
		})
	}
	random := rand.New(rand.NewPCG(seed, 1))
	queues := make([]chan int, nodes)
	for i := range queues {
		queues[i] = make(chan int, tasks)
	}
	for i, t := range random.Perm(tasks) {
		queues[i%nodes] <- t % environments
	}
	for i, n := range at.nodes {
		close(queues[i])
		for range slots {
			all.Go(func() error {
				for e := range queues[i] {
					if err := c.task(ctx, n, &made[e]); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// task runs a task on a node, which fetches the environment first unless it has it.
func (c contender) task(ctx context.Context, n *node, o *ordered) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if o.err != nil {
		return o.err
	}
	if err := n.once(c.keyOf(o.what), func() error { return c.fetch(ctx, n, o.what) }); err != nil {
		return fmt.Errorf("fetching %s: %w", o.what, err)
	}
	printed, err := c.run(ctx, n, o.what, taskScript)
	// The exit status decides: ctr loses the output of some short tasks.
	if err != nil || printed != "" && strings.TrimSpace(printed) != "ready" {
		return fmt.Errorf("a task in %s printed %q: %w", o.what, printed, cmp.Or(err, fs.ErrInvalid))
	}
	return nil
}

func (c contender) keyOf(what string) string {
	if c.key == nil {
		return what
	}
	return c.key(what)
}

// once calls do for the first task that needs something. The others wait for it.
func (n *node) once(what string, do func() error) error {
	n.lock.Lock()
	f, ok := n.fetched[what]
	if !ok {
		f = sync.OnceValue(do)
		n.fetched[what] = f
	}
	n.lock.Unlock()
	return f()
}

// sizeOf returns the total size of the files in a folder in bytes; 0 before it exists.
func sizeOf(dir string) (sum float64) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	must.Do(filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	}))
	return sum
}
