package main

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

// report is everything that a run found.
type report struct {
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

// newReport is one of a run of a binary.
func newReport(binary string, rounds int) *report {
	return &report{Started: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), Binary: binary, Rounds: rounds}
}

// sheet is what a section writes its figures on.
func (r *report) sheet(section string) *sheet { return &sheet{report: r, section: section} }

// sheet is one section's part of the report.
type sheet struct {
	report  *report
	section string
	// remark goes with every figure that follows.
	remark string
}

// tell notes a value that has no bar.
func (s *sheet) tell(metric string, value float64, unit string) {
	s.report.Figures = append(s.report.Figures, figure{
		Section: s.section, Metric: metric, Value: round(value), Unit: unit, Note: s.remark,
	})
}

// hold notes a value and whether it keeps to the bar, if it is one.
func (s *sheet) hold(metric string, value float64, unit string, b bar) {
	s.tell(metric, value, unit)
	if b == (bar{}) {
		return
	}
	f := &s.report.Figures[len(s.report.Figures)-1]
	met := b.met(value)
	f.Bar, f.Met = b.String(), &met
}

// medians notes metrics of a contender, without bars.
func (s *sheet) medians(r results, name string, metrics ...metric) {
	for _, m := range metrics {
		s.tell(strings.TrimSpace(name+" "+m.name), r.median(name, m), m.unit)
	}
}

// median holds a metric of a contender to a bar.
func (s *sheet) median(r results, name string, m metric, b bar) {
	s.hold(strings.TrimSpace(name+" "+m.name), r.median(name, m), m.unit, b)
}

// ratio holds a metric of one contender, over that of another, to a bar.
func (s *sheet) ratio(r results, a, b string, m metric, to bar) {
	s.hold(strings.TrimSpace(a+" "+m.name)+" / "+b, r.ratio(a, b, m), "x", to)
}

// bar is what a value should be: at most or at least something. The zero value is
// no bar.
type bar struct {
	op    string
	limit float64
}

func atMost(limit float64) bar  { return bar{"<=", limit} }
func atLeast(limit float64) bar { return bar{">=", limit} }

func (b bar) met(v float64) bool {
	if b.op == ">=" {
		return v >= b.limit
	}
	return v <= b.limit
}

func (b bar) String() string { return b.op + " " + strconv.FormatFloat(b.limit, 'g', -1, 64) }

// round keeps four significant digits: the rest is noise. What is no number is 0,
// since JSON has no way to say it; its bar is judged before.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// print writes the table to standard error, and the JSON to a file or to standard
// output.
func (r *report) print(file string) error {
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

func (r *report) table() string {
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
