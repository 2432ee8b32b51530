package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
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

// TestPage checks that contenders are drawn beside each other with their limits, and that other figures are rows.
func TestPage(t *testing.T) {
	t.Parallel()
	r := &Report{Rounds: 3}
	s := r.Sheet("digest")
	of := Results{"slipway": {{Rate: 100}}, "zot <2>": {{Rate: 50}}, "alone": {{P50: 1}}}
	s.Median(of, "slipway", Rate, AtLeast(200))
	s.Medians(of, "zot <2>", Rate)
	s.Medians(of, "alone", P50)
	s.Ratio(of, "slipway", "zot <2>", Rate, AtLeast(1))
	r.Sheet("page").Check("bytes", 70, "kB", AtMost(60))
	sections := r.sections()
	if len(sections) != 2 || len(sections[0].Plots) != 1 || len(sections[0].Rows) != 2 || len(sections[1].Rows) != 1 {
		t.Fatalf("the sections are %+v", sections)
	}
	p := sections[0].Plots[0]
	if p.Metric != "rate" || len(p.Bars) != 2 || !p.Bars[0].Ours || !p.Bars[0].Missed || p.Bars[0].Width != barsWide/2 || p.Bars[0].Limit == nil || p.Bars[0].Limit.X != barsAt+barsWide ||
		p.Bars[1].Width != barsWide/4 || p.Bars[1].Limit != nil {
		t.Errorf("the plot is %+v", p)
	}
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{"zot &lt;2&gt;", "<h2>page</h2>", ">100 (&gt;= 200)</text>", `<span class="missed">no</span>`, "<span>yes</span>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s:\n%s", want, text)
		}
	}
	plot, _, _ := strings.Cut(text[strings.Index(text, "<svg"):], "</svg>")
	for d := xml.NewDecoder(strings.NewReader(plot + "</svg>")); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
}
