package buildkit

import (
	"fmt"
	"strings"
	"testing"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"

	"slipway.dev/services/builder/jobs"
)

// TestFailuresKeepTheirLines checks that forty missing packages are all named, one per
// line, and that control sequences are removed.
func TestFailuresKeepTheirLines(t *testing.T) {
	t.Parallel()
	var missing []string
	for i := range 40 {
		missing = append(missing, fmt.Sprintf("    ├─ \x1b[31mpackage-%d\x1b[0m =* * does not exist (perhaps a typo or a missing channel)", i))
	}
	step := &vertex{name: "RUN install"}
	step.last = append([]string{"bioconda/linux-64    5.1MB @ 8MB/s", "error    libmamba Could not solve for environment specs"}, missing...)
	exit := &gateway.ExitError{ExitCode: 1}

	p := &progress{failed: step, solve: true, redact: func(s string) string { return s }}
	got := p.failure(t.Context(), exit, nil)
	lines := strings.Split(got.Message, "\n")
	if got.Reason != jobs.Solve || len(lines) != 42 || strings.Contains(got.Message, "MB/s") || strings.Contains(got.Message, "\x1b") {
		t.Errorf("%s, %d lines:\n%s", got.Reason, len(lines), got.Message)
	}
	for i := range 40 {
		if want := fmt.Sprintf("    ├─ package-%d =*", i); len(lines) > i+2 && !strings.HasPrefix(lines[i+2], want) {
			t.Errorf("line %d is %q, want %q", i+2, lines[i+2], want)
		}
	}
	p.solve = false
	if got := p.failure(t.Context(), exit, nil); got.Reason != jobs.Build || strings.Count(got.Message, "\n") != endLines || !strings.Contains(got.Message, "package-39") {
		t.Errorf("%s:\n%s", got.Reason, got.Message)
	}
}
