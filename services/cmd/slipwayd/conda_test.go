package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"slipway.dev/services/app/compare"
)

// TestReportsSteerNoTerminal checks that reports contain no terminal control sequences, since
// names in images and fields of records are external text.
func TestReportsSteerNoTerminal(t *testing.T) {
	t.Parallel()
	const raw = `{"names": 3, "records": 1, "direct": "bd-1", "classic": "bd-2",
		"differences": [{"path": "HOSTILE", "what": "HOSTILE", "direct": "HOSTILE", "classic": "HOSTILE"}],
		"known": [{"why": "times", "count": 2, "example": "HOSTILE"}]}`
	var report compare.Report
	if err := json.Unmarshal([]byte(strings.ReplaceAll(raw, "HOSTILE", `x\u001b[2J\n\u202e\u009b2J`)), &report); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printReport(&out, report, "text"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 3 || strings.ContainsFunc(strings.Join(lines, ""), func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the report is %q", out.String())
	}
	if want := "3 names and 1 records of bd-1 and bd-2: 1 differences"; lines[len(lines)-1] != want {
		t.Errorf("it ends %q, want %q", lines[len(lines)-1], want)
	}
}
