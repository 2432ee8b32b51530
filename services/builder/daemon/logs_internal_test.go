package daemon

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
)

// printed returns the output that arrives from steps that print one after another.
func printed(t *testing.T, budget *logBudget, texts ...string) (out []string) {
	t.Helper()
	for _, text := range texts {
		var ends [2][2]*os.File
		for i := range ends {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = [2]*os.File{r, w}
		}
		go func() {
			_, _ = io.WriteString(ends[0][1], text)
			_ = ends[0][1].Close()
		}()
		go (&output{from: ends[0][0], to: ends[1][1], budget: budget}).pump()
		raw, err := io.ReadAll(ends[1][0])
		if err != nil {
			t.Fatal(err)
		}
		_ = ends[1][0].Close()
		out = append(out, string(raw))
	}
	return out
}

// TestLogsAreCut prints more than the limit of a build.
func TestLogsAreCut(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 400_000 {
		fmt.Fprintf(&b, "%099d\n", i)
	}
	got := printed(t, newLogBudget(), b.String())[0]
	head, tail, cut := strings.Cut(got, "left out: the log is too long …\n")
	if !cut || len(head) > limits.StepLogHead+200 || len(head) < limits.StepLogHead-100 || len(tail) > limits.StepLogTail || len(tail) < limits.StepLogTail-100 {
		t.Errorf("%d bytes, then %d", len(head), len(tail))
	}
	if head = head[:strings.LastIndex(head, "\n…")]; !strings.HasPrefix(b.String(), head) || len(head)%100 != 0 || !strings.HasSuffix(b.String(), tail) || len(tail)%100 != 0 {
		t.Error("lines are broken")
	}
}

// TestLogsOfManySteps prints a long log before thousands of steps, and checks that the end
// of each is kept and that the total is bounded.
func TestLogsOfManySteps(t *testing.T) {
	t.Parallel()
	budget := newLogBudget()
	budget.head = 0
	texts := make([]string, 500)
	for i := range texts {
		texts[i] = strings.Repeat("x", 100<<10) + "\nthe end\n"
	}
	sum := 0
	for _, got := range printed(t, budget, texts...) {
		if sum += len(got); !strings.HasSuffix(got, "the end\n") {
			t.Fatalf("%d bytes are left, which end with %q", len(got), got[max(0, len(got)-20):])
		}
	}
	if most := limits.StepLogTails + len(texts)*(limits.StepLogLeast+100); sum > most {
		t.Errorf("%d bytes were printed", sum)
	}
	if got := printed(t, budget, "short\n")[0]; got != "short\n" {
		t.Errorf("a short text is %q", got)
	}
}

func TestRuntimeVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.1.5+ds1": false, "1.1.12": false, "1.2.7": false, "1.2.8": true, "1.3.0": false, "1.3.2": false, "1.3.3": true,
		"1.3.3-0ubuntu1~25.04.3": true, "1.4.0-rc.2": false, "1.4.0-rc.3": true, "1.4.0": true, "1.5.2": true, "1.10.0": true, "2.0.0": true,
		"1.0.0-rc95": false, "": false, "unknown": false,
	} {
		if got := safe(version); got != want {
			t.Errorf("%q is safe: %v", version, got)
		}
	}
}
