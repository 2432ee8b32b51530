package workers

import (
	"maps"

	"slipway.dev/services/build/engine"
)

// Candidates holds the live workers that can build a kind, as returned by Watch.Candidates.
type Candidates struct {
	names map[string]bool
	makes map[engine.Kind]bool
	// Slots is how many builds these workers can run at a time; 0 without workers.
	Slots int
}

// MayRun reports whether a build of a kind occupies or may occupy a slot of these workers.
// The argument worker has the build; "" while it waits.
func (f Candidates) MayRun(worker string, c engine.Kind) bool {
	if worker != "" {
		return f.names[worker]
	}
	return f.makes[c]
}

// Candidates returns the live workers that can build a kind.
func (w *Watch) Candidates(c engine.Kind) Candidates {
	f := Candidates{names: map[string]bool{}, makes: map[engine.Kind]bool{}}
	for _, p := range w.Live() {
		can := map[engine.Kind]bool{}
		for _, k := range p.GetCapabilities() {
			can[engine.Kind{Engine: k.GetEngine(), Architecture: k.GetArchitecture()}] = true
		}
		if !can[c] {
			continue
		}
		f.names[p.GetWorker()] = true
		f.Slots += int(p.GetSlots())
		maps.Copy(f.makes, can)
	}
	return f
}
