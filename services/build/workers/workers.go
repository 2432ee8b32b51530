// Package workers knows which workers live, and who of them can build what, from what they
// say of themselves on the bus. Each replica knows what it has heard; nothing is kept.
package workers

import (
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
	// alive is how long a worker is believed after its last sign of life; they
	// come every three seconds.
	alive = 12 * time.Second
	// patience is how long after our own start workers may be silent before they
	// are held to be missing.
	patience = 15 * time.Second
	// Absence is how long builds are still queued for a kind of worker of which
	// there is none any more.
	Absence = 2 * time.Minute
	// arrival is how long a build waits for a worker that is started on demand, its
	// machine included.
	arrival = 30 * time.Minute
)

// Watch is what was heard of workers. Make it with New; safe for concurrent use.
type Watch struct {
	now   func() time.Time
	since time.Time
	// onDemand says that somebody starts workers when builds wait.
	onDemand bool

	mu   sync.Mutex
	seen map[string]sighting
	// had is when a kind was there last.
	had map[engine.Kind]time.Time
}

// sighting is a worker's newest Presence.
type sighting struct {
	at   time.Time
	what *buildv1.Presence
}

// New begins to watch. onDemand says that somebody starts workers when builds wait: having
// none is no reason to refuse one.
func New(now func() time.Time, onDemand bool) *Watch {
	return &Watch{now: now, since: now(), onDemand: onDemand, seen: map[string]sighting{}, had: map[engine.Kind]time.Time{}}
}

// Observe takes a worker's Presence; it says whether there is more to give out than
// before.
func (w *Watch) Observe(raw []byte) bool {
	p := &buildv1.Presence{}
	if err := proto.Unmarshal(raw, p); err != nil || p.GetWorker() == "" {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if p.GetSlots() == 0 { // it stops
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

// Slots counts what all live workers can do at a time.
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

// Kinds are what the live workers can do; a kind is there once for each worker.
func (w *Watch) Kinds() []engine.Kind {
	var out []engine.Kind
	for _, p := range w.Live() {
		for _, can := range p.GetCapabilities() {
			out = append(out, engine.Kind{Engine: can.GetEngine(), Architecture: can.GetArchitecture()})
		}
	}
	return out
}

// Live are the newest words of the workers that live. They are not to be changed.
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

// Able follows gateway/contract/container-service.md#capabilities:
// fault.Unsupported, with the reason, when no worker can make a kind of builds. A worker
// that was there a moment ago may just be on its way back, and one that starts may be able
// to. Shortly after our own start none may have been heard, but for those that say
// that they cannot.
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
	if known && now.Sub(last) < Absence || w.starting(c.Engine) {
		return nil
	}
	if why := w.Problem(c.Engine); why != "" {
		return fault.Unsupported.Newf("This service cannot %s: %s", task(c.Engine), why)
	}
	if w.expects() {
		return nil
	}
	switch {
	case len(w.Live()) == 0 && w.onDemand:
		return nil
	case len(w.Live()) == 0:
		return fault.Unsupported.Newf("This service has no worker right now that could build an image")
	case c.Architecture == engine.Any:
		return fault.Unsupported.Newf("No worker of this service can %s", task(c.Engine))
	}
	return fault.Unsupported.Newf("No worker of this service builds for linux/%s%s; an operator can add workers of that kind, or emulation (deploy/README.md, Other architectures)",
		c.Architecture, w.instead(c.Engine))
}

// instead is what an engine's workers build for, to be asked for instead; "" for
// nothing.
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
	return ": they build for linux/" + strings.Join(have, ", linux/") + ", which containerPlatform can ask for"
}

// MayWait says why a build that was asked for at a time gets no worker any more;
// nil when it may.
func (w *Watch) MayWait(c engine.Kind, asked time.Time) error {
	if w.expects() {
		return nil
	}
	if err := w.Able(c); err != nil {
		return err
	}
	if w.onDemand && len(w.Live()) == 0 && w.now().Sub(asked) > arrival {
		return fault.Unsupported.Newf("No worker was started for this build within %s", arrival)
	}
	return nil
}

// expects says whether workers may not have been heard yet.
func (w *Watch) expects() bool { return w.now().Sub(w.since) < patience }

// starting says whether a live worker does not know yet what an engine of its can
// do.
func (w *Watch) starting(name string) bool {
	return slices.ContainsFunc(w.Live(), func(p *buildv1.Presence) bool {
		return slices.ContainsFunc(p.GetProblems(), func(e *buildv1.EngineProblem) bool {
			return e.GetEngine() == name && e.GetProblem() == ""
		}) || p.GetProblem() == "" && len(p.GetCapabilities()) == 0
	})
}

// task is what an engine does, for messages.
func task(name string) string {
	switch name {
	case engine.Sif:
		return "make Singularity images"
	case engine.Conda:
		return "put Conda packages into images"
	case engine.Freeze:
		return "freeze existing images"
	}
	return "build images"
}

// Problem is why none of the live workers can use an engine; "" when one can, or
// does not say why not.
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
