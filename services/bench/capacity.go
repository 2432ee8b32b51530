package main

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
)

// measureCapacity measures what each kind of work costs each role and each store, with
// one, two and four replicas: the coefficients of deploy/capacity.md, which holds if
// they do not change with the number of replicas.
func measureCapacity(w *world, s *sheet) {
	w.push(appImage)
	w.push(taskImage)
	w.push(baseImage)
	var first map[string]reading
	for _, n := range []int{1, 2, 4} {
		costs := w.costs(s, n)
		if first == nil {
			first = costs
		}
		for _, work := range slices.Sorted(maps.Keys(costs)) {
			s.hold(fmt.Sprintf("%d replicas, %s: cpu / one replica", n, work), costs[work].cpu()/first[work].cpu(), "x", atMost(1.25))
		}
		w.fleet.stopAll()
	}
}

// cpu is the processor time of all roles and stores.
func (r reading) cpu() (sum float64) {
	for q, v := range r {
		if q.what == "cpu" {
			sum += v
		}
	}
	return sum
}

// costs starts so many replicas, and returns what one piece of each kind of work used.
func (w *world) costs(s *sheet, replicas int) map[string]reading {
	c := w.startCluster(replicas)
	image := at(w.named(c, requestFor(w.up.addr, appImage, smallConfig)))
	tasks := at(w.named(c, requestFor(w.up.addr, taskImage, smallConfig)))
	anyone := c.roles["registry"][0].addr
	image.host, tasks.host = anyone, anyone
	digest, doc, err := image.child(w.ctx, engine())
	check(err)
	_, large, err := tasks.child(w.ctx, engine())
	check(err)
	pull := func(url string) []call {
		return c.spread("registry", func(s *slipwayServer) call { return get(elsewhere(url, s.addr)) })
	}
	request := c.spread("gateway", func(s *slipwayServer) call { return s.submitting(requestFor(w.up.addr, appImage, smallConfig)) })
	idle := c.idle(w)
	costs := map[string]reading{}
	note := func(work string, each float64, do func()) {
		do() // once for nothing
		before, begin := c.read(w), time.Now()
		do()
		w.pause(time.Second) // what is counted later, in batches
		used := c.read(w).since(before)
		for q := range used {
			used[q] = max(0, used[q]-idle[q]*time.Since(begin).Seconds()) / each
		}
		costs[work] = used
		s.write(fmt.Sprintf("%d replicas, %s: ", replicas, work), used)
	}
	calls := func(work string, count int, of []call) {
		note(work, float64(count), func() { w.share(count, of) })
	}
	calls("a tag", w.requests/4, pull(image.manifest(image.ref)))
	calls("a digest", w.requests, pull(image.manifest(digest)))
	calls("a blob", w.requests/4, pull(image.blob(doc.Config.Digest)))
	const layers = 400
	layer := large.Layers[0]
	note("a GB of layers", layers*float64(layer.Size)/1e9, func() { w.share(layers, pull(tasks.blob(layer.Digest))) })
	calls("a request", w.requests/4, request)
	note("a task", 3*tracedTasks, func() {
		(&tracer{server: c.roles["gateway"][0], client: client(c.roles["gateway"][0].url("/"), 1), token: c.token}).run()
	})
	const builds = 5
	note("a build", builds, func() {
		for range builds {
			name := at(w.named(c, requestToBuild(w.recipe())))
			name.host = anyone
			_, _, err := read(w.ctx, engine(), name.manifest(name.ref))
			check(err)
		}
	})
	s.write(fmt.Sprintf("%d replicas, a second of rest: ", replicas), idle)
	return costs
}

// named asks the first gateway for a name.
func (w *world) named(c *cluster, body string) string {
	return c.roles["gateway"][0].submit(body).TargetImage
}

// idle is what a second takes in which nobody asks for anything.
func (c *cluster) idle(w *world) reading {
	const seconds = 5
	w.pause(settled)
	before := c.read(w)
	w.pause(seconds * time.Second)
	used := c.read(w).since(before)
	for q := range used {
		used[q] /= seconds
	}
	return used
}

// share makes calls at all replicas at once, which share them evenly. Each has as many in
// flight, however many replicas there are: what wakes up for one call alone costs more.
func (w *world) share(count int, calls []call) {
	var all sync.WaitGroup
	problems := make([]error, len(calls))
	for i, k := range calls {
		all.Go(func() {
			_, problems[i] = load{call: k, workers: 8, count: count / len(calls)}.run(w.ctx)
		})
	}
	all.Wait()
	for _, err := range problems {
		check(err)
	}
}

// write tells what was used of everything.
func (s *sheet) write(prefix string, used reading) {
	byName := func(a, b quantity) int { return cmp.Or(strings.Compare(a.of, b.of), strings.Compare(a.what, b.what)) }
	for _, q := range slices.SortedFunc(maps.Keys(used), byName) {
		if used[q] >= 0.001 {
			s.tell(prefix+q.of+" "+q.what, used[q], q.unit)
		}
	}
}

// counter is the sum of a metric that a process shows, over its labels.
func (w *world) counter(s *slipwayServer, name string) (sum float64) {
	raw, _, err := read(w.ctx, engine(), "http://"+s.admin+"/metrics")
	check(err)
	for _, line := range lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(rest, "{") {
			sum += must(strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64))
		}
	}
	return sum
}

func lines(text string) []string { return strings.Split(strings.ReplaceAll(text, "\r", ""), "\n") }

func decode(raw []byte, into any) error { return json.Unmarshal(raw, into) }
