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

// caught is what do was ended with, if anything.
func caught(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// failure is what check ends a section with.
type failure struct{ error }

// check ends the section where there is an error. It is for the section's own
// goroutine.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is a value without its error, which ends the section.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// fail ends the section with a reason.
func fail(format string, args ...any) { check(fmt.Errorf(format, args...)) }
