package main

import (
	"fmt"
	"slices"
	"strings"
)

// section measures one thing that has a bar.
type section struct {
	// name is what -only and the figures call it.
	name string
	// measure writes what it finds on the sheet. What it starts with the world's
	// start ends with the section.
	measure func(*world, *sheet)
}

// sections is the table of all: a measurement is a line here, and a file.
func sections() []section {
	return []section{
		{"start", measureStart},
		{"digest", measureDigest},
		{"tag", measureTag},
		{"blob", measureBlob},
		{"pulls", measurePulls},
		{"submit", measureSubmit},
		{"trace", measureTrace},
		{"count", measureCount},
		{"build", measureBuild},
		{"sif", measureSif},
		{"solve", measureSolve},
		{"index", measureIndex},
		{"image", measureImage},
		{"capacity", measureCapacity},
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
func (s section) run(w *world, sheet *sheet) error {
	defer w.fleet.stopAll()
	return caught(func() { s.measure(w, sheet) })
}
