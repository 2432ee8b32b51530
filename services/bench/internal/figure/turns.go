package figure

import (
	"context"
	"slices"
	"time"

	"slipway.dev/services/bench/internal/must"
)

// A Contender is one of several alternatives that take turns. A turn may use package must.
type Contender struct {
	Name string
	Run  func() Sample
}

// A Sample is the result of one turn. Fields that a section does not measure are 0.
type Sample struct {
	// Rate is in calls per second. P50 and P99 are latencies in seconds.
	Rate, P50, P99 float64
	// CPU is the processor time in seconds of the server under test, Behind that of its
	// upstream, and Store that of Redis: each per call, or per byte of a blob.
	CPU, Behind, Store float64
	// Speed is in bytes per second.
	Speed float64
	// Took is the total time in seconds, and Answered the time until the response to the
	// request.
	Took, Answered float64
}

// A Metric extracts a value from a sample and converts it to its unit.
type Metric struct {
	Name, Unit string
	Of         func(Sample) float64
}

// The metrics that several sections use.
var (
	Rate = Metric{"rate", "1/s", func(s Sample) float64 { return s.Rate }}
	P50  = Metric{"p50", "ms", func(s Sample) float64 { return s.P50 * 1e3 }}
	P99  = Metric{"p99", "ms", func(s Sample) float64 { return s.P99 * 1e3 }}
	CPU  = Metric{"cpu", "us", func(s Sample) float64 { return s.CPU * 1e6 }}
	Took = Metric{"", "ms", func(s Sample) float64 { return s.Took * 1e3 }}
)

// Results holds the samples of each contender by name, in order of rounds.
type Results map[string][]Sample

// Alternate gives every contender a turn in every round, so that disturbances affect all
// contenders.
func Alternate(ctx context.Context, rounds int, contenders ...Contender) Results {
	out := Results{}
	for range rounds {
		for _, c := range contenders {
			must.Do(ctx.Err())
			out[c.Name] = append(out[c.Name], c.Run())
		}
	}
	return out
}

// Median returns the median of a contender's samples.
func (r Results) Median(name string, m Metric) float64 { return Median(r.values(name, m)) }

// Least returns the minimum of a contender's samples.
func (r Results) Least(name string, m Metric) float64 { return slices.Min(r.values(name, m)) }

func (r Results) values(name string, m Metric) (list []float64) {
	for _, s := range r[name] {
		list = append(list, m.Of(s))
	}
	return list
}

// Ratio returns the median over the rounds of a/b, and Difference that of a-b.
func (r Results) Ratio(a, b string, m Metric) float64 {
	return r.within(a, b, m, func(a, b float64) float64 { return a / b })
}

func (r Results) Difference(a, b string, m Metric) float64 {
	return r.within(a, b, m, func(a, b float64) float64 { return a - b })
}

func (r Results) within(a, b string, m Metric, f func(a, b float64) float64) float64 {
	list, others := r.values(a, m), r.values(b, m)
	for i := range list {
		list[i] = f(list[i], others[i])
	}
	return Median(list)
}

func Median(list []float64) float64 {
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

// Percentile returns a percentile of a sorted list, in seconds; p is 0 to 100.
func Percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*p/100)].Seconds()
}
