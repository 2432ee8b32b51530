// Package figure holds the results of measurements: turns of contenders, their samples,
// statistics, and the report of figures with their limits. It measures nothing itself.
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

// A Report holds all figures of a run.
type Report struct {
	Started time.Time `json:"started"`
	Machine machine   `json:"machine"`
	// Binary is the measured binary.
	Binary  string   `json:"binary"`
	Rounds  int      `json:"rounds"`
	Figures []figure `json:"figures"`
}

// A figure is one measured value with an optional limit.
type figure struct {
	Section string `json:"section"`
	Metric  string `json:"metric"`
	// Contender is what Metric begins with, if it is a figure of one of several contenders.
	Contender string  `json:"contender,omitempty"`
	Value     float64 `json:"value"`
	Unit      string  `json:"unit"`
	// Bar has the form "<= 60".
	Bar string `json:"bar,omitempty"`
	Met *bool  `json:"met,omitempty"`
	// Note adds information to the value.
	Note string `json:"note,omitempty"`

	limit float64
}

// New returns the report of a run of a binary.
func New(binary string, rounds int) *Report {
	return &Report{Started: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Binary: binary, Rounds: rounds}
}

// Sheet returns the part of the report for a section.
func (r *Report) Sheet(section string) *Sheet { return &Sheet{report: r, section: section} }

// A Sheet is the part of the report for one section.
type Sheet struct {
	report  *Report
	section string
	// Remark is added to every figure that follows.
	Remark string
}

// Record records a value without a limit.
func (s *Sheet) Record(metric string, value float64, unit string) {
	s.report.Figures = append(s.report.Figures, figure{
		Section: s.section, Metric: metric, Value: round(value), Unit: unit, Note: s.Remark,
	})
}

// Check records a value and whether it is within its limit, if it has one.
func (s *Sheet) Check(metric string, value float64, unit string, b Bar) {
	s.Record(metric, value, unit)
	if b == (Bar{}) {
		return
	}
	f := &s.report.Figures[len(s.report.Figures)-1]
	met := b.met(value)
	f.Bar, f.Met, f.limit = b.String(), &met, b.limit
}

// RecordOf records a value of one of several contenders, without a limit.
func (s *Sheet) RecordOf(contender, metric string, value float64, unit string) {
	s.Record(contender+" "+metric, value, unit)
	s.report.Figures[len(s.report.Figures)-1].Contender = contender
}

// Medians records the medians of a contender's metrics, without limits.
func (s *Sheet) Medians(r Results, name string, metrics ...Metric) {
	for _, m := range metrics {
		s.Median(r, name, m, Bar{})
	}
}

// Median records the median of a contender's metric with a limit.
func (s *Sheet) Median(r Results, name string, m Metric, b Bar) {
	s.Check(strings.TrimSpace(name+" "+m.Name), r.Median(name, m), m.Unit, b)
	s.report.Figures[len(s.report.Figures)-1].Contender = name
}

// Ratio records the ratio of a metric of two contenders with a limit.
func (s *Sheet) Ratio(r Results, a, b string, m Metric, to Bar) {
	s.Check(strings.TrimSpace(a+" "+m.Name)+" / "+b, r.Ratio(a, b, m), "x", to)
}

// A Bar is an upper or lower limit of a value. The zero value is no limit.
type Bar struct {
	op    string
	limit float64
}

// AtMost and AtLeast return an upper and a lower limit.
func AtMost(limit float64) Bar  { return Bar{"<=", limit} }
func AtLeast(limit float64) Bar { return Bar{">=", limit} }

func (b Bar) met(v float64) bool {
	if b.op == ">=" {
		return v >= b.limit
	}
	return v <= b.limit
}

func (b Bar) String() string { return b.op + " " + strconv.FormatFloat(b.limit, 'g', -1, 64) }

// round rounds to four significant digits. NaN and infinities, which JSON cannot represent,
// become 0; the limit is checked before.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// Print writes the table to standard error, and the JSON to a file or to standard output.
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
	_ = w.Flush() // writing to a strings.Builder does not fail
	return b.String()
}
