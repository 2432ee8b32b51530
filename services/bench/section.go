package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// section measures one thing that design.md sets a bar for.
type section interface {
	// name is what -only and the figures call it.
	name() string
	// measure writes what it finds on the sheet.
	measure(ctx context.Context, w *world, s *sheet) error
}

func sections() []section {
	return []section{startSection{}, digestSection{}, tagSection{}, blobSection{}, pullsSection{}, submitSection{}, traceSection{}, countSection{}, buildSection{}, sifSection{}}
}

func sectionNames() []string {
	var names []string
	for _, s := range sections() {
		names = append(names, s.name())
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
		return len(only) > 0 && !slices.Contains(only, s.name())
	}), nil
}

// contender is one of those that take turns.
type contender struct {
	name string
	turn func(context.Context) (sample, error)
}

// results are the samples of each contender by its name, in order of rounds.
type results map[string][]sample

// alternate gives every contender a turn in every round, so that whatever else
// the machine does hits all of them.
func alternate(ctx context.Context, rounds int, contenders []contender) (results, error) {
	out := results{}
	for range rounds {
		for _, c := range contenders {
			s, err := c.turn(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			out[c.name] = append(out[c.name], s)
		}
	}
	return out, nil
}

// median is the middle of what pick reads from a contender's samples.
func (r results) median(name string, pick func(sample) float64) float64 {
	var list []float64
	for _, s := range r[name] {
		list = append(list, pick(s))
	}
	return median(list)
}

// least is the smallest of what pick reads from a contender's samples.
func (r results) least(name string, pick func(sample) float64) float64 {
	var list []float64
	for _, s := range r[name] {
		list = append(list, pick(s))
	}
	return slices.Min(list)
}

// ratio is the median of a/b within each round.
func (r results) ratio(a, b string, pick func(sample) float64) float64 {
	var list []float64
	for i := range r[a] {
		list = append(list, pick(r[a][i])/pick(r[b][i]))
	}
	return median(list)
}

// difference is the median of a-b within each round.
func (r results) difference(a, b string, pick func(sample) float64) float64 {
	var list []float64
	for i := range r[a] {
		list = append(list, pick(r[a][i])-pick(r[b][i]))
	}
	return median(list)
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2
	}
	return sorted[mid]
}
