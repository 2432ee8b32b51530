// Package workers tracks the live workers and what they can build, from their presence
// messages on the bus. Each replica only knows what it has received, and nothing is stored.
package workers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/fault"
)

const (
	// alive is how long a worker counts as live after its last presence message; they
	// arrive every three seconds.
	alive = 12 * time.Second
	// reportWindow is how long after this replica's start a queued build waits for workers
	// that have not reported yet.
	reportWindow = 15 * time.Second
	// firstReport is how long a request waits for such workers. Workers report immediately
	// when a replica starts (buildbus.RollCall).
	firstReport = 2 * time.Second
	// Absence is how long builds are still queued for a kind whose last worker has ended.
	Absence = 2 * time.Minute
	// arrival is how long a build waits for a worker that is started on demand, including
	// its machine, or for space on the workers' disks.
	arrival = 30 * time.Minute
)

// Watch holds the presence of workers. Create it with New; it is safe for concurrent use.
type Watch struct {
	now   func() time.Time
	since time.Time
	// onDemand reports whether workers are started when builds wait.
	onDemand bool

	mu   sync.Mutex
	seen map[string]sighting
	// news is closed and replaced when a worker reports.
	news chan struct{}
	// had is when a kind was last available.
	had map[engine.Kind]time.Time
}

// sighting is a worker's newest Presence.
type sighting struct {
	at   time.Time
	what *buildv1.Presence
}

// New returns an empty Watch. If onDemand is set, workers are started when builds wait, so
// that builds are not rejected for a lack of workers.
func New(now func() time.Time, onDemand bool) *Watch {
	return &Watch{now: now, since: now(), onDemand: onDemand, seen: map[string]sighting{}, news: make(chan struct{}), had: map[engine.Kind]time.Time{}}
}

// Observe records a worker's Presence, and reports whether more builds can be dispatched
// than before.
func (w *Watch) Observe(raw []byte) bool {
	p := &buildv1.Presence{}
	if err := proto.Unmarshal(raw, p); err != nil || p.GetWorker() == "" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.news)
	w.news = make(chan struct{})
	now := w.now()
	if p.GetSlots() == 0 { // the worker stops
		delete(w.seen, p.GetWorker())
		return false
	}
	before, known := w.seen[p.GetWorker()]
	w.seen[p.GetWorker()] = sighting{at: now, what: p}
	for name, s := range w.seen {
		if now.Sub(s.at) > 10*alive {
			delete(w.seen, name)
		}
	}
	return !known || now.Sub(before.at) > alive || before.what.GetSlots() < p.GetSlots() ||
		len(before.what.GetCapabilities()) < len(p.GetCapabilities())
}

// Slots returns how many builds of a kind the live workers can run at a time.
func (w *Watch) Slots(c engine.Kind) int {
	n := 0
	for _, p := range w.Live() {
		for _, can := range p.GetCapabilities() {
			if can.GetEngine() == c.Engine && can.GetArchitecture() == c.Architecture {
				n += int(p.GetSlots())
			}
		}
	}
	return n
}

// Kinds returns what the live workers can build, with each kind once per worker.
func (w *Watch) Kinds() []engine.Kind {
	var out []engine.Kind
	for _, p := range w.Live() {
		for _, can := range p.GetCapabilities() {
			out = append(out, engine.Kind{Engine: can.GetEngine(), Architecture: can.GetArchitecture()})
		}
	}
	return out
}

// Live returns the newest presence of each live worker. The caller must not modify them.
func (w *Watch) Live() []*buildv1.Presence {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*buildv1.Presence
	for _, s := range w.seen {
		if w.now().Sub(s.at) <= alive {
			out = append(out, s.what)
		}
	}
	return out
}

// Await is Able for a request. Shortly after this replica's start it waits for workers that
// have not reported yet, at most firstReport.
func (w *Watch) Await(ctx context.Context, c engine.Kind) error {
	wait := time.NewTimer(firstReport)
	defer wait.Stop()
	for {
		w.mu.Lock()
		news := w.news
		w.mu.Unlock()
		err := w.Able(c)
		if err == nil || w.now().Sub(w.since) > firstReport && len(w.Live()) > 0 || !w.expects() {
			return err
		}
		select {
		case <-news:
		case <-wait.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Able implements gateway/contract/container-service.md#capabilities: it returns
// fault.Unsupported with the reason if no worker can build a kind, and fault.Full if all
// workers wait for space on their disks. It returns nil if such a worker was live a moment
// ago, since it may be restarting, or if a worker is still starting.
func (w *Watch) Able(c engine.Kind) error {
	now := w.now()
	if w.Slots(c) > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.had[c] = now
		return nil
	}
	w.mu.Lock()
	last, known := w.had[c]
	w.mu.Unlock()
	if w.diskFull() {
		return fault.Full.Newf("The disks of this service's workers are almost full, so that no image can be built; its operator must free space, then try again").
			After(time.Minute)
	}
	if known && now.Sub(last) < Absence || w.starting(c.Engine) {
		return nil
	}
	if why := w.Problem(c.Engine); why != "" {
		return fault.Unsupported.Newf("This service cannot %s: %s", task(c.Engine), why).WithCode(fault.BuildUnsupported)
	}
	switch {
	case len(w.Live()) == 0 && w.onDemand:
		return nil
	case len(w.Live()) == 0:
		return fault.Unsupported.Newf("This service has no worker right now that could build an image").WithCode(fault.BuildUnsupported)
	case c.Architecture == engine.Any:
		return fault.Unsupported.Newf("No worker of this service can %s", task(c.Engine)).WithCode(fault.BuildUnsupported)
	}
	return fault.Unsupported.Newf("No worker of this service builds for linux/%s%s; an operator can add workers of that kind, or emulation (docs/operate/configure.md, Other architectures)",
		c.Architecture, w.instead(c.Engine)).WithCode(fault.BuildUnsupported)
}

// instead describes the architectures that an engine's workers support; "" without such
// workers.
func (w *Watch) instead(name string) string {
	var have []string
	for _, c := range w.Kinds() {
		if c.Engine == name && !slices.Contains(have, c.Architecture) {
			have = append(have, c.Architecture)
		}
	}
	if len(have) == 0 {
		return ""
	}
	slices.Sort(have)
	return ": they build for linux/" + strings.Join(have, ", linux/") + "; select one of them with containerPlatform"
}

// MayWait returns why no worker will take a build that was requested at a given time; nil if
// the build may still wait.
func (w *Watch) MayWait(c engine.Kind, asked time.Time) error {
	if w.expects() {
		return nil
	}
	if err := w.Able(c); err != nil {
		if errors.Is(err, fault.Full) && w.now().Sub(asked) <= arrival {
			return nil
		}
		return err
	}
	if w.onDemand && len(w.Live()) == 0 && w.now().Sub(asked) > arrival {
		return fault.Unsupported.Newf("No worker was started for this build within %s", arrival).WithCode(fault.BuildUnsupported)
	}
	return nil
}

// diskFull reports whether all live workers reject jobs because their disks are full. It is
// false without live workers.
func (w *Watch) diskFull() bool {
	live := w.Live()
	return len(live) > 0 && !slices.ContainsFunc(live, func(p *buildv1.Presence) bool { return !p.GetDiskFull() })
}

// expects reports whether workers may not have reported yet.
func (w *Watch) expects() bool { return w.now().Sub(w.since) < reportWindow }

// starting reports whether a live worker does not know yet whether its engine works.
func (w *Watch) starting(name string) bool {
	return slices.ContainsFunc(w.Live(), func(p *buildv1.Presence) bool {
		return slices.ContainsFunc(p.GetProblems(), func(e *buildv1.EngineProblem) bool {
			return e.GetEngine() == name && e.GetProblem() == ""
		}) || p.GetProblem() == "" && len(p.GetCapabilities()) == 0
	})
}

// task describes the work of an engine, for messages.
func task(name string) string {
	switch name {
	case engine.Sif:
		return "make Singularity images"
	case engine.Conda:
		return "put Conda packages into images"
	case engine.Freeze:
		return "freeze existing images"
	case engine.Mirror:
		return "mirror images"
	}
	return "build images"
}

// Problem returns the reason why no live worker can use an engine; "" if one can, or if no
// reason is known.
func (w *Watch) Problem(name string) string {
	why := ""
	for _, p := range w.Live() {
		can := func(c *buildv1.Capability) bool { return c.GetEngine() == name }
		if slices.ContainsFunc(p.GetCapabilities(), can) {
			return ""
		}
		said := p.GetProblem()
		for _, e := range p.GetProblems() {
			if e.GetEngine() == name {
				said = e.GetProblem()
			}
		}
		if said != "" {
			why = said
		}
	}
	return why
}
