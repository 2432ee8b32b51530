package solver

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// memory is a source in memory.
type memory map[string][]spec.Record

func (m memory) Records(name string) ([]spec.Record, error) { return m[name], nil }

// used returns the processor time of this thread.
func used(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// hardest returns requests for the packages of a whole channel that take the longest.
func hardest(t *testing.T) (out []Problem) {
	t.Helper()
	forge := Channel{Name: "conda-forge"}
	for _, subdir := range []string{"linux-64", "noarch"} {
		forge.Sources = append(forge.Sources, memory(condadata.Records(t, "conda-forge", subdir)))
	}
	machine := []spec.VirtualPackage{
		{Name: "__glibc", Version: "2.36", Build: "0"}, {Name: "__linux", Version: "5.10", Build: "0"}, {Name: "__unix", Version: "0", Build: "0"},
	}
	for _, c := range condadata.Solves(t) {
		p := Problem{Channels: []Channel{forge}, Virtual: machine}
		for _, text := range c.Specs {
			wanted, err := spec.ParseMatchSpec(text)
			if err != nil {
				t.Fatal(err)
			}
			p.Specs = append(p.Specs, wanted)
		}
		if len(p.Specs) > 3 {
			out = append(out, p)
		}
	}
	return out
}

// stretch returns the longest time that a search works between two checks of its context.
func stretch(t *testing.T, p *Problem) (longest time.Duration) {
	t.Helper()
	s := newSearch(t.Context(), newLibrary(p), p.Specs)
	last := used(t)
	s.over = func() error {
		now := used(t)
		longest, last = max(longest, now-last), now
		return nil
	}
	if err := s.solve(); err != nil && !errors.Is(err, errNone) {
		t.Errorf("%v: %v", p.Specs, err)
	}
	_ = s.over()
	return longest
}

// TestSearchChecksContextOften checks that a search checks its context at least every 50
// ms of processor time of its thread, which does not depend on the load of the machine.
// Longer times are measured again, since garbage collection may have caused them.
func TestSearchChecksContextOften(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const most = 50 * time.Millisecond
	var all []time.Duration
	for _, p := range hardest(t) {
		took := stretch(t, &p)
		for range 3 {
			if took > most {
				took = min(took, stretch(t, &p))
			}
		}
		if all = append(all, took); took > most {
			t.Errorf("%v: continued for %v", p.Specs, took)
		}
	}
	if len(all) < 50 {
		t.Errorf("%d requests are too few", len(all))
	}
	t.Logf("%d requests; the longest time without a check is %v", len(all), slices.Max(all))
}

// TestExplainingEndsWithItsCaller checks that no more suggestions are tried after
// cancellation.
func TestExplainingEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	tried := 0
	list := make([]int, 1000)
	smallest(ctx, list, func([]int) bool {
		if tried++; tried == 5 {
			leave()
		}
		return false
	})
	if tried != 5 {
		t.Errorf("%d were tried, want 5", tried)
	}
}
