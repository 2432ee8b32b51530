package figure

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
)

//go:embed page.html
var layout string

// The geometry of a plot, in the units of its view box: names are to the left of the bars, values to the right.
const (
	barsAt, barsWide = 260.0, 480.0
	rowHigh          = 26.0
)

// A plot shows a metric of several contenders as bars.
type plot struct {
	Metric, Unit string
	Bars         []bar
	Height       float64
}

type bar struct {
	Name, Value, Bar    string
	Ours, Missed        bool
	Y, Text, Width, End float64
	// Limit is where the limit of the value is; nil without one.
	Limit *line
}

type line struct{ X, Top, Bottom float64 }

// sectionPage is what the page shows of a section: plots of what contenders have in common, and rows for the rest.
type sectionPage struct {
	Name  string
	Plots []plot
	Rows  []figure
}

// WritePage writes the report as a page of HTML without scripts or other files.
func (r *Report) WritePage(w io.Writer) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"number":  number,
		"met":     met,
		"percent": func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) },
	}).Parse(layout)
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		*Report
		Sections []sectionPage
	}{r, r.sections()})
}

// met states whether a figure is within its limit; "" without one.
func met(f figure) string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "yes"
	}
	return "no"
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sections divides the figures by section, in the order in which they were recorded.
func (r *Report) sections() (out []sectionPage) {
	for from, to := 0, 0; from < len(r.Figures); from = to {
		for to < len(r.Figures) && r.Figures[to].Section == r.Figures[from].Section {
			to++
		}
		out = append(out, newSectionPage(r.Figures[from:to]))
	}
	return out
}

func newSectionPage(all []figure) sectionPage {
	type kind struct{ metric, unit, note string }
	groups, order := map[kind][]figure{}, []kind{}
	of := func(f figure) kind { return kind{f.metric(), f.Unit, f.Note} }
	for _, f := range all {
		if f.Contender == "" {
			continue
		}
		if groups[of(f)] == nil {
			order = append(order, of(f))
		}
		groups[of(f)] = append(groups[of(f)], f)
	}
	out := sectionPage{Name: all[0].Section}
	for _, k := range order {
		if len(groups[k]) > 1 {
			out.Plots = append(out.Plots, newPlot(groups[k]))
		}
	}
	for _, f := range all {
		if f.Contender == "" || len(groups[of(f)]) == 1 {
			out.Rows = append(out.Rows, f)
		}
	}
	return out
}

// metric returns the name of the metric without its contender.
func (f figure) metric() string {
	m := strings.TrimSpace(strings.TrimPrefix(f.Metric, f.Contender))
	if m == "" {
		m = "time"
	}
	return m
}

func newPlot(of []figure) plot {
	out := plot{Metric: of[0].metric(), Unit: of[0].Unit, Height: rowHigh * float64(len(of))}
	if of[0].Note != "" {
		out.Metric += ", " + of[0].Note
	}
	most := 0.0
	for _, f := range of {
		most = max(most, f.Value, f.limit)
	}
	if most == 0 {
		most = 1
	}
	for i, f := range of {
		top := rowHigh * float64(i)
		b := bar{
			Name: f.Contender, Value: number(f.Value), Bar: f.Bar, Missed: f.Met != nil && !*f.Met, Ours: strings.HasPrefix(f.Contender, "slipway"),
			Y: top + 4, Text: top + 18, Width: max(1, barsWide*f.Value/most),
		}
		b.End = barsAt + b.Width + 8
		if f.Met != nil {
			b.Limit = &line{barsAt + barsWide*f.limit/most, top + 1, top + rowHigh - 1}
		}
		out.Bars = append(out.Bars, b)
	}
	return out
}
