package main

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/bench/internal/conda"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/measure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// section measures one thing that has a bar.
type section struct {
	// name is what -only and the figures call it.
	name string
	// measure writes what it finds on the sheet. What it starts with the world's
	// start ends with the section.
	measure func(*world.World, *figure.Sheet)
}

// sections is the table of all.
func sections() []section {
	return []section{
		{"start", measure.Start},
		{"digest", measure.Digest},
		{"tag", measure.Tag},
		{"blob", measure.Blob},
		{"pulls", measure.Pulls},
		{"submit", measure.Submit},
		{"trace", measure.Trace},
		{"count", measure.Count},
		{"build", measure.Build},
		{"sif", measure.Sif},
		{"solve", conda.Solve},
		{"index", conda.Index},
		{"image", conda.Image},
		{"capacity", measure.Capacity},
	}
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}

// choose picks sections by name; no name is all of them.
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

// run measures, and returns what ended the section early, if anything did.
func (s section) run(w *world.World, sheet *figure.Sheet) error {
	defer w.StopStarted()
	return must.Caught(func() { s.measure(w, sheet) })
}
