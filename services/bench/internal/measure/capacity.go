package measure

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// Capacity measures the cost of each kind of work for each role and each store, with one,
// two and four replicas: the coefficients of docs/operate/capacity.md, which is valid if
// they do not depend on the number of replicas.
func Capacity(w *world.World, s *figure.Sheet) {
	w.Push(world.AppImage)
	w.Push(world.TaskImage)
	w.Push(world.BaseImage)
	var first map[string]reading
	for _, n := range []int{1, 2, 4} {
		costs := measureUsage(w, s, n)
		if first == nil {
			first = costs
		}
		for _, work := range slices.Sorted(maps.Keys(costs)) {
			s.Check(fmt.Sprintf("%d replicas, %s: cpu / one replica", n, work), costs[work].cpu()/first[work].cpu(), "x", figure.AtMost(1.25))
		}
		w.StopStarted()
	}
}

// cpu returns the processor time of all roles and stores.
func (r reading) cpu() (sum float64) {
	for q, v := range r {
		if q.what == "cpu" {
			sum += v
		}
	}
	return sum
}

// measureUsage starts the given number of replicas and returns, by kind of work, the usage of one
// piece of it.
func measureUsage(w *world.World, s *figure.Sheet, replicas int) map[string]reading {
	c := startCluster(w, replicas)
	image := engine.At(named(w, c, slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig)))
	tasks := engine.At(named(w, c, slipwayd.RequestFor(w.Up.Addr, world.TaskImage, slipwayd.SmallConfig)))
	anyone := c.roles["registry"][0].Addr
	image.Host, tasks.Host = anyone, anyone
	digest, doc, err := image.Child(w.Ctx, engine.New())
	must.Do(err)
	_, large, err := tasks.Child(w.Ctx, engine.New())
	must.Do(err)
	pull := func(url string) []load.Call {
		return c.callsFor("registry", func(s *slipwayd.Server) load.Call { return load.Get(withHost(url, s.Addr)) })
	}
	request := c.callsFor("gateway", func(s *slipwayd.Server) load.Call {
		return s.Submitting(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))
	})
	idle := c.idle(w)
	costs := map[string]reading{}
	note := func(work string, each float64, do func()) {
		do() // warm-up
		before, begin := c.read(w), time.Now()
		do()
		w.Pause(time.Second) // for work that is counted later, in batches
		used := c.read(w).since(before)
		for q := range used {
			used[q] = max(0, used[q]-idle[q]*time.Since(begin).Seconds()) / each
		}
		costs[work] = used
		write(s, fmt.Sprintf("%d replicas, %s: ", replicas, work), used)
	}
	calls := func(work string, count int, of []load.Call) {
		note(work, float64(count), func() { callEvenly(w, count, of) })
	}
	calls("a tag", w.Requests/4, pull(image.Manifest(image.Ref)))
	calls("a digest", w.Requests, pull(image.Manifest(digest)))
	calls("a blob", w.Requests/4, pull(image.Blob(doc.Config.Digest)))
	const layers = 400
	layer := large.Layers[0]
	note("a GB of layers", layers*float64(layer.Size)/1e9, func() { callEvenly(w, layers, pull(tasks.Blob(layer.Digest))) })
	calls("a request", w.Requests/4, request)
	note("a task", 3*tracedTasks, func() {
		(&tracer{server: c.roles["gateway"][0], client: load.Client(c.roles["gateway"][0].URL("/"), 1), token: c.token}).run()
	})
	const builds = 5
	note("a build", builds, func() {
		for range builds {
			name := engine.At(named(w, c, slipwayd.RequestToBuild(recipe(w))))
			name.Host = anyone
			_, _, err := engine.Read(w.Ctx, engine.New(), name.Manifest(name.Ref))
			must.Do(err)
		}
	})
	write(s, fmt.Sprintf("%d replicas, a second of rest: ", replicas), idle)
	return costs
}

// named requests a name from the first gateway.
func named(w *world.World, c *cluster, body string) string {
	return c.roles["gateway"][0].Submit(body).TargetImage
}

// idle returns the usage of one second without requests.
func (c *cluster) idle(w *world.World) reading {
	const seconds = 5
	w.Pause(world.Settled)
	before := c.read(w)
	w.Pause(seconds * time.Second)
	used := c.read(w).since(before)
	for q := range used {
		used[q] /= seconds
	}
	return used
}

// callEvenly makes calls at all replicas concurrently and evenly. The number of calls in flight
// per replica does not depend on the number of replicas, because waking up for a single
// call costs more.
func callEvenly(w *world.World, count int, calls []load.Call) {
	var all sync.WaitGroup
	problems := make([]error, len(calls))
	for i, k := range calls {
		all.Go(func() {
			_, problems[i] = load.Load{Call: k, Workers: 8, Count: count / len(calls)}.Run(w.Ctx)
		})
	}
	all.Wait()
	for _, err := range problems {
		must.Do(err)
	}
}

// write records the usage of all roles and stores.
func write(s *figure.Sheet, prefix string, used reading) {
	byName := func(a, b quantity) int { return cmp.Or(strings.Compare(a.of, b.of), strings.Compare(a.what, b.what)) }
	for _, q := range slices.SortedFunc(maps.Keys(used), byName) {
		if used[q] >= 0.001 {
			s.Record(prefix+q.of+" "+q.what, used[q], q.unit)
		}
	}
}

// counter returns the sum of a metric of a process over its labels.
func counter(w *world.World, s *slipwayd.Server, name string) (sum float64) {
	raw, _, err := engine.Read(w.Ctx, engine.New(), "http://"+s.Admin+"/metrics")
	must.Do(err)
	for _, line := range lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(rest, "{") {
			sum += must.Get(strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64))
		}
	}
	return sum
}

func lines(text string) []string { return strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") }

func decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }
