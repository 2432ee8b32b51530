package solver_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// records is a source in memory.
type records map[string][]spec.Record

func (r records) Records(name string) ([]spec.Record, error) { return r[name], nil }

// forge returns conda-forge for a platform.
func forge(t testing.TB, subdir string) solver.Channel {
	t.Helper()
	return channelOf(t, "conda-forge", subdir)
}

// channelOf reads a channel with its noarch records.
func channelOf(t testing.TB, name, subdir string) solver.Channel {
	t.Helper()
	c := solver.Channel{Name: name, Sources: []solver.Source{records(condadata.Records(t, name, "noarch"))}}
	if name != "bioconda" || subdir == "linux-64" {
		c.Sources = append(c.Sources, records(condadata.Records(t, name, subdir)))
	}
	return c
}

// machine returns the virtual packages that the reference solvers used.
func machine() []spec.VirtualPackage {
	return []spec.VirtualPackage{
		{Name: "__glibc", Version: "2.36", Build: "0"}, {Name: "__linux", Version: "5.10", Build: "0"},
		{Name: "__unix", Version: "0", Build: "0"}, {Name: "__archspec", Version: "1", Build: "x86_64_v3"},
	}
}

func specs(t testing.TB, texts ...string) []spec.MatchSpec {
	t.Helper()
	out := make([]spec.MatchSpec, len(texts))
	for i, text := range texts {
		m, err := spec.ParseMatchSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = m
	}
	return out
}

func files(s *solver.Solution) []string {
	var out []string
	for i := range s.Records {
		out = append(out, s.Records[i].FileName)
	}
	slices.Sort(out)
	return out
}

// TestReferenceSolves compares with the reference solvers: requests must be solvable in the
// same cases, solutions must be valid, and nearly all equal to those of rattler.
func TestReferenceSolves(t *testing.T) {
	t.Parallel()
	checkSolves(t, condadata.Solves(t), 97)
}

// TestDrawnSolves compares the solutions of 600 random requests with those of rattler.
func TestDrawnSolves(t *testing.T) {
	t.Parallel()
	checkSolves(t, condadata.Drawn(t), 98)
}

// checkSolves solves requests, and checks that at least the given percentage of solutions
// equals those of rattler.
func checkSolves(t *testing.T, solves []condadata.Solve, percent int) {
	t.Helper()
	channels := []solver.Channel{forge(t, "linux-64")}
	same, differ := 0, 0
	var times []time.Duration
	for _, c := range solves {
		p := solver.Problem{Specs: specs(t, c.Specs...), Channels: channels, Virtual: machine()}
		began := time.Now()
		got, err := solver.Solve(t.Context(), p)
		times = append(times, time.Since(began))
		var conflict *solver.Conflict
		if (err == nil) != (c.Rattler != nil) || (err != nil && !errors.As(err, &conflict)) {
			t.Errorf("%q: %v, and rattler finds %d packages", c.Specs, err, len(c.Rattler))
			continue
		}
		if err != nil {
			continue
		}
		if err := verify(&p, got); err != nil {
			t.Errorf("%q: %v", c.Specs, err)
		}
		if slices.Equal(files(got), c.Rattler) {
			same++
			continue
		}
		differ++
		t.Logf("%q: differs from rattler", c.Specs)
	}
	slices.Sort(times)
	n := len(times)
	t.Logf("%d equal rattler's, %d differ; p50 %v, p90 %v, p99 %v, max %v", same, differ, times[n/2], times[n*90/100], times[n*99/100], times[n-1])
	if 100*same < percent*(same+differ) {
		t.Errorf("%d of %d solutions equal rattler's, fewer than %d %%", same, same+differ, percent)
	}
}

// TestReferenceCases compares with rattler's solutions for other platforms, two channels
// and dates.
func TestReferenceCases(t *testing.T) {
	t.Parallel()
	same, differ := 0, 0
	channels := map[[2]string]solver.Channel{}
	for _, c := range condadata.Cases(t) {
		p := solver.Problem{Specs: specs(t, c.Specs...), Virtual: machine(), ExcludeNewer: c.ExcludeNewer}
		if c.Platform == "linux-aarch64" {
			p.Virtual[3].Build = "aarch64"
		}
		for _, name := range c.Channels {
			at := [2]string{name, c.Platform}
			if channels[at].Name == "" {
				channels[at] = channelOf(t, name, c.Platform)
			}
			p.Channels = append(p.Channels, channels[at])
		}
		got, err := solver.Solve(t.Context(), p)
		var conflict *solver.Conflict
		if (err == nil) != (c.Rattler != nil) || (err != nil && !errors.As(err, &conflict)) {
			t.Errorf("%q of %q for %s: %v, and rattler finds %d packages", c.Specs, c.Channels, c.Platform, err, len(c.Rattler))
			continue
		}
		if err != nil {
			continue
		}
		if err := verify(&p, got); err != nil {
			t.Errorf("%q of %q for %s: %v", c.Specs, c.Channels, c.Platform, err)
		}
		if slices.Equal(files(got), c.Rattler) {
			same++
			continue
		}
		differ++
		t.Logf("%q of %q for %s: differs from rattler", c.Specs, c.Channels, c.Platform)
	}
	if t.Logf("%d equal rattler's, %d differ", same, differ); 100*same < 97*(same+differ) {
		t.Errorf("%d of %d solutions equal rattler's, fewer than 97 %%", same, same+differ)
	}
}
