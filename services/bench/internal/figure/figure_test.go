package figure

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
	} {
		if got := Median(c.in); got != c.want {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}

func TestRatioIsOfRoundsNotOfMedians(t *testing.T) {
	t.Parallel()
	r := Results{"a": {{Rate: 10}, {Rate: 100}, {Rate: 30}}, "b": {{Rate: 5}, {Rate: 50}, {Rate: 10}}}
	if got := r.Ratio("a", "b", Rate); got != 2 {
		t.Errorf("%g, want 2", got)
	}
	if got := r.Difference("a", "b", Rate); got != 20 {
		t.Errorf("the difference is %g, want 20", got)
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bar   Bar
		value float64
		text  string
		met   bool
	}{
		{AtMost(60), 60, "<= 60", true},
		{AtMost(60), 60.0001, "<= 60", false},
		{AtLeast(0.9), 0.9, ">= 0.9", true},
		{AtLeast(0.9), 0.8999999, ">= 0.9", false},
		{AtMost(2), math.NaN(), "<= 2", false},
	} {
		s := (&Report{}).Sheet("x")
		s.Check("m", c.value, "u", c.bar)
		f := s.report.Figures[0]
		if f.Bar != c.text || *f.Met != c.met {
			t.Errorf("%v: %q %t, want %q %t", c.value, f.Bar, *f.Met, c.text, c.met)
		}
	}
}
