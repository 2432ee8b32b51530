package build

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
	// absence is how long builds are still queued for a kind of worker of which
	// there is none any more.
	absence = 2 * time.Minute
	// arrival is how long a build waits for a worker that is started on demand, its
	// machine included.
	arrival = 30 * time.Minute
)

// workers knows who can build what, from what workers say of themselves.
type workers struct {
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

func newWorkers(now func() time.Time, onDemand bool) *workers {
	return &workers{now: now, since: now(), onDemand: onDemand, seen: map[string]sighting{}, had: map[engine.Kind]time.Time{}}
}

// observe takes a worker's Presence; it says whether there is more to give out than
// before.
func (w *workers) observe(raw []byte) bool {
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

// slots counts what all live workers can do at a time.
func (w *workers) slots(c engine.Kind) int {
	n := 0
	for _, s := range w.live() {
		for _, can := range s.what.GetCapabilities() {
			if can.GetEngine() == c.Engine && can.GetArchitecture() == c.Architecture {
				n += int(s.what.GetSlots())
			}
		}
	}
	return n
}

// capabilities are what the live workers can do.
func (w *workers) capabilities() []engine.Kind {
	var out []engine.Kind
	for _, s := range w.live() {
		for _, can := range s.what.GetCapabilities() {
			out = append(out, engine.Kind{Engine: can.GetEngine(), Architecture: can.GetArchitecture()})
		}
	}
	return out
}

func (w *workers) live() []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []sighting
	for _, s := range w.seen {
		if w.now().Sub(s.at) <= alive {
			out = append(out, s)
		}
	}
	return out
}

// able follows gateway/contract/container-service.md#capabilities:
// fault.Unsupported, with the reason, when no worker can do it. A worker that was
// there a moment ago may just be on its way back, and one that starts may be able
// to. Shortly after our own start none may have been heard, but for those that say
// that they cannot.
func (w *workers) able(c engine.Kind) error {
	now := w.now()
	if w.slots(c) > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.had[c] = now
		return nil
	}
	w.mu.Lock()
	last, known := w.had[c]
	w.mu.Unlock()
	if known && now.Sub(last) < absence || w.starting(c.Engine) {
		return nil
	}
	if why := w.problem(c.Engine); why != "" {
		return fault.Unsupported.Newf("This service cannot %s: %s", task(c.Engine), why)
	}
	if w.expects() {
		return nil
	}
	switch {
	case len(w.live()) == 0 && w.onDemand:
		return nil
	case len(w.live()) == 0:
		return fault.Unsupported.Newf("This service has no worker right now that could build an image")
	case c.Architecture == engine.Any:
		return fault.Unsupported.Newf("No worker of this service can %s", task(c.Engine))
	}
	return fault.Unsupported.Newf("No worker of this service builds for linux/%s%s; an operator can add workers of that kind, or emulation (deploy/README.md, Other architectures)",
		c.Architecture, w.instead(c.Engine))
}

// instead is what an engine's workers build for, to be asked for instead; "" for
// nothing.
func (w *workers) instead(name string) string {
	var have []string
	for _, c := range w.capabilities() {
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

// given says why a build that was asked for at a time gets no worker any more;
// nil when it may.
func (w *workers) given(c engine.Kind, asked time.Time) error {
	if w.expects() {
		return nil
	}
	if err := w.able(c); err != nil {
		return err
	}
	if w.onDemand && len(w.live()) == 0 && w.now().Sub(asked) > arrival {
		return fault.Unsupported.Newf("No worker was started for this build within %s", arrival)
	}
	return nil
}

// expects says whether workers may not have been heard yet.
func (w *workers) expects() bool { return w.now().Sub(w.since) < patience }

// starting says whether a live worker does not know yet what an engine of its can
// do.
func (w *workers) starting(name string) bool {
	return slices.ContainsFunc(w.live(), func(s sighting) bool {
		return slices.ContainsFunc(s.what.GetProblems(), func(p *buildv1.EngineProblem) bool {
			return p.GetEngine() == name && p.GetProblem() == ""
		}) || s.what.GetProblem() == "" && len(s.what.GetCapabilities()) == 0
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

// problem is why none of the live workers can use an engine; "" when one can, or
// does not say why not.
func (w *workers) problem(name string) string {
	why := ""
	for _, s := range w.live() {
		can := func(c *buildv1.Capability) bool { return c.GetEngine() == name }
		if slices.ContainsFunc(s.what.GetCapabilities(), can) {
			return ""
		}
		said := s.what.GetProblem()
		for _, p := range s.what.GetProblems() {
			if p.GetEngine() == name {
				said = p.GetProblem()
			}
		}
		if said != "" {
			why = said
		}
	}
	return why
}
