// Package figure is what measurements come to: turns of contenders, samples of each,
// what follows from them, and the report of figures with the bars they are held to. It
// measures nothing itself.
package figure

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is everything that a run found.
type Report struct {
	Started time.Time `json:"started"`
	Machine machine   `json:"machine"`
	// Binary is what was measured.
	Binary  string   `json:"binary"`
	Rounds  int      `json:"rounds"`
	Figures []figure `json:"figures"`
}

// figure is one measured value, with the bar it is held to if there is one.
type figure struct {
	Section string  `json:"section"`
	Metric  string  `json:"metric"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	// Bar reads like "<= 60".
	Bar string `json:"bar,omitempty"`
	Met *bool  `json:"met,omitempty"`
	// Note says what else one has to know.
	Note string `json:"note,omitempty"`
}

// New is one of a run of a binary.
func New(binary string, rounds int) *Report {
	return &Report{Started: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Binary: binary, Rounds: rounds}
}

// Sheet is what a section writes its figures on.
func (r *Report) Sheet(section string) *Sheet { return &Sheet{report: r, section: section} }

// Sheet is one section's part of the report.
type Sheet struct {
	report  *Report
	section string
	// Remark goes with every figure that follows.
	Remark string
}

// Tell notes a value that has no bar.
func (s *Sheet) Tell(metric string, value float64, unit string) {
	s.report.Figures = append(s.report.Figures, figure{
		Section: s.section, Metric: metric, Value: round(value), Unit: unit, Note: s.Remark,
	})
}

// Hold notes a value and whether it keeps to the bar, if it is one.
func (s *Sheet) Hold(metric string, value float64, unit string, b Bar) {
	s.Tell(metric, value, unit)
	if b == (Bar{}) {
		return
	}
	f := &s.report.Figures[len(s.report.Figures)-1]
	met := b.met(value)
	f.Bar, f.Met = b.String(), &met
}

// Medians notes metrics of a contender, without bars.
func (s *Sheet) Medians(r Results, name string, metrics ...Metric) {
	for _, m := range metrics {
		s.Tell(strings.TrimSpace(name+" "+m.Name), r.Median(name, m), m.Unit)
	}
}

// Median holds a metric of a contender to a bar.
func (s *Sheet) Median(r Results, name string, m Metric, b Bar) {
	s.Hold(strings.TrimSpace(name+" "+m.Name), r.Median(name, m), m.Unit, b)
}

// Ratio holds a metric of one contender, over that of another, to a bar.
func (s *Sheet) Ratio(r Results, a, b string, m Metric, to Bar) {
	s.Hold(strings.TrimSpace(a+" "+m.Name)+" / "+b, r.Ratio(a, b, m), "x", to)
}

// Bar is what a value should be: at most or at least something. The zero value is
// no bar.
type Bar struct {
	op    string
	limit float64
}

// AtMost and AtLeast are bars.
func AtMost(limit float64) Bar  { return Bar{"<=", limit} }
func AtLeast(limit float64) Bar { return Bar{">=", limit} }

func (b Bar) met(v float64) bool {
	if b.op == ">=" {
		return v >= b.limit
	}
	return v <= b.limit
}

func (b Bar) String() string { return b.op + " " + strconv.FormatFloat(b.limit, 'g', -1, 64) }

// round keeps four significant digits: the rest is noise. What is no number is 0,
// since JSON has no way to say it; its bar is judged before.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Print writes the table to standard error, and the JSON to a file or to standard
// output.
func (r *Report) Print(file string) error {
	fmt.Fprintf(os.Stderr, "\n%s\nOthers kept the processors busy: %.0f%% before, %.0f%% after.\n",
		r.table(), 100*r.Machine.BusyBefore, 100*r.Machine.BusyAfter)
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if file != "" {
		return os.WriteFile(file, raw, 0o644)
	}
	_, err = os.Stdout.Write(raw)
	return err
}

func (r *Report) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tmetric\tvalue\tunit\tbar\tmet\t")
	for _, f := range r.Figures {
		met := ""
		if f.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Section, f.Metric, strconv.FormatFloat(f.Value, 'f', -1, 64), f.Unit, f.Bar, met, f.Note)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}
