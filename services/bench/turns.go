package main

import (
	"context"
	"slices"
	"time"
)

// contender is one of those that take turns. A turn may use check and must.
type contender struct {
	name string
	turn func() sample
}

// sample is what one turn measured. Fields that a section does not measure are 0.
type sample struct {
	// rate is calls per second; p50 and p99 are latencies in seconds.
	rate, p50, p99 float64
	// cpu is seconds of the server under test, behind those of the server it asks,
	// store those of Redis: each per call, or per byte of a blob.
	cpu, behind, store float64
	// speed is bytes per second.
	speed float64
	// took is the seconds of the whole, answered those until a request was.
	took, answered float64
}

// metric is what figures read from samples, in the unit that they are given in.
type metric struct {
	name, unit string
	of         func(sample) float64
}

// The metrics of more than one section.
var (
	rate = metric{"rate", "1/s", func(s sample) float64 { return s.rate }}
	p50  = metric{"p50", "ms", func(s sample) float64 { return s.p50 * 1e3 }}
	p99  = metric{"p99", "ms", func(s sample) float64 { return s.p99 * 1e3 }}
	cpu  = metric{"cpu", "us", func(s sample) float64 { return s.cpu * 1e6 }}
	took = metric{"", "ms", func(s sample) float64 { return s.took * 1e3 }}
)

// results are the samples of each contender by its name, in order of rounds.
type results map[string][]sample

// alternate gives every contender a turn in every round, so that whatever else
// the machine does hits all of them.
func alternate(ctx context.Context, rounds int, contenders ...contender) results {
	out := results{}
	for range rounds {
		for _, c := range contenders {
			check(ctx.Err())
			out[c.name] = append(out[c.name], c.turn())
		}
	}
	return out
}

// median is the middle of a contender's samples.
func (r results) median(name string, m metric) float64 { return median(r.values(name, m)) }

// least is the smallest of a contender's samples.
func (r results) least(name string, m metric) float64 { return slices.Min(r.values(name, m)) }

func (r results) values(name string, m metric) (list []float64) {
	for _, s := range r[name] {
		list = append(list, m.of(s))
	}
	return list
}

// ratio is the median of a/b within each round, difference that of a-b.
func (r results) ratio(a, b string, m metric) float64 {
	return r.within(a, b, m, func(a, b float64) float64 { return a / b })
}

func (r results) difference(a, b string, m metric) float64 {
	return r.within(a, b, m, func(a, b float64) float64 { return a - b })
}

func (r results) within(a, b string, m metric, f func(a, b float64) float64) float64 {
	list, others := r.values(a, m), r.values(b, m)
	for i := range list {
		list[i] = f(list[i], others[i])
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

// percentile reads a sorted list, in seconds; p is 0 to 100.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)].Seconds()
}
