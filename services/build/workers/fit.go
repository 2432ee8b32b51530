package workers

import (
	"maps"

	"slipway.dev/services/build/engine"
)

// Fitting is the live workers that can make a kind of builds, by Fit.
type Fitting struct {
	names map[string]bool
	makes map[engine.Kind]bool
	// Slots is how many builds they make at a time; 0 where there is none.
	Slots int
}

// Carries says whether a build of a kind takes a slot of these workers, or may; worker has
// it, "" while it waits.
func (f Fitting) Carries(worker string, c engine.Kind) bool {
	if worker != "" {
		return f.names[worker]
	}
	return f.makes[c]
}

// Fit finds the live workers that can make a kind of builds, and what else they make.
func (w *Watch) Fit(c engine.Kind) Fitting {
	f := Fitting{names: map[string]bool{}, makes: map[engine.Kind]bool{}}
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
