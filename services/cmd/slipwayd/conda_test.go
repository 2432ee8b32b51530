package main

import (
	"strings"
	"testing"
	"unicode"

	"slipway.dev/services/app/compare"
	"slipway.dev/services/builder/shadow"
)

// TestReportsSteerNoTerminal: names in images, and of fields of records, are strangers'.
func TestReportsSteerNoTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "x\x1b[2J\n\u202e\x9b2J"
	var out strings.Builder
	printReport(&out, compare.Report{Direct: "bd-1", Classic: "bd-2", Report: shadow.Report{
		Names: 3, Records: 1,
		Differences: []shadow.Difference{{Path: hostile, What: hostile, Direct: hostile, Classic: hostile}},
		Known:       []shadow.Known{{Why: "times", Count: 2, Example: hostile}},
	}})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 || strings.ContainsFunc(strings.Join(lines, ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the report is %q", out.String())
	}
	if want := "3 names and 1 records of bd-1 and bd-2: 1 differences"; lines[len(lines)-1] != want {
		t.Errorf("it ends %q, want %q", lines[len(lines)-1], want)
	}
}
