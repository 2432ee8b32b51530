package main

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/bench/internal/conda"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/measure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/pipeline"
	"slipway.dev/services/bench/internal/world"
)

// A section measures one property that has a limit.
type section struct {
	// name is the section's name in -only and in the figures.
	name string
	// measure writes its figures to the sheet. Processes that it starts with World.Start
	// end with the section.
	measure func(*world.World, *figure.Sheet)
}

// sections returns the table of all sections.
func sections() []section {
	return []section{
		{"start", measure.Start},
		{"digest", measure.Digest},
		{"tag", measure.Tag},
		{"blob", measure.Blob},
		{"pulls", measure.Pulls},
		{"submit", measure.Submit},
		{"attack", measure.Attack},
		{"trace", measure.Trace},
		{"count", measure.Count},
		{"build", measure.Build},
		{"sif", measure.Sif},
		{"mirror", measure.Mirror},
		{"solve", conda.Solve},
		{"index", conda.Index},
		{"image", conda.Image},
		{"environment", conda.Sif},
		{"sbom", conda.Bill},
		{"batch", conda.Batch},
		{"mount", conda.Mount},
		{"patch", conda.Patch},
		{"pipeline", pipeline.Measure},
		{"capacity", measure.Capacity},
		{"fleet", measure.Fleet},
		{"growth", measure.Growth},
		{"page", measure.Page},
	}
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// choose selects sections by name; no name selects all.
func choose(only []string) ([]section, error) {
	for _, n := range only {
		if !slices.Contains(sectionNames(), n) {
			return nil, fmt.Errorf("there is no section %q; the sections are %s", n, strings.Join(sectionNames(), ", "))
		}
	}
	return slices.DeleteFunc(sections(), func(s section) bool {
		return len(only) > 0 && !slices.Contains(only, s.name)
	}), nil
}

// run runs the measurement and returns the error that ended it early, if any.
func (s section) run(w *world.World, sheet *figure.Sheet) error {
	defer w.StopStarted()
	return must.Caught(func() { s.measure(w, sheet) })
}
