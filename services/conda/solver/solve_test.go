package solver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/condadata"
)

// with returns a modified copy of a record.
func with(r spec.Record, change func(*spec.Record)) spec.Record {
	change(&r)
	return r
}

// barring returns a change that adds constraints to a record.
func barring(texts ...string) func(*spec.Record) {
	return func(r *spec.Record) { r.Constrains = texts }
}

func TestSolve(t *testing.T) {
	t.Parallel()
	late := channel("late", made("a 2.0"), made("b 1.0"), made("only-late 1.0", "a"))
	for _, c := range []struct {
		name     string
		channels []solver.Channel
		specs    []string
		flexible bool
		want     string // names and versions in order; "" is a conflict
	}{
		{"the newest", []solver.Channel{channel("c", made("a 1.9"), made("a 1.10"), made("a 1.10rc1"))}, []string{"a"}, false, "a-1.10"},
		{"a build", []solver.Channel{channel("c", made("a 1.0 h1_0"), made("a 1.0 h2_0"), made("a 2.0 h2_0"))}, []string{"a 1.0 h1_*"}, false, "a-1.0-h1_0"},
		{"the highest build number", []solver.Channel{channel("c", made("a 1.0 x"), with(made("a 1.0 b"), func(r *spec.Record) { r.BuildNumber = 2 }))}, []string{"a"}, false, "a-1.0-b"},
		{"no track features rather than newer", []solver.Channel{channel("c", made("a 1.0"), with(made("a 2.0"), func(r *spec.Record) { r.TrackFeatures = []string{"x"} }))}, []string{"a"}, false, "a-1.0"},
		{"track features where nothing else fits", []solver.Channel{channel("c", made("a 1.0"), with(made("a 2.0"), func(r *spec.Record) { r.TrackFeatures = []string{"x"} }))}, []string{"a >1"}, false, "a-2.0"},
		{"the latest timestamp of equal builds", []solver.Channel{channel("c", with(made("a 1.0 x"), func(r *spec.Record) { r.Timestamp = 5 }), with(made("a 1.0 b"), func(r *spec.Record) { r.Timestamp = 9 }))}, []string{"a"}, false, "a-1.0-b"},
		{"an older version, so that all fit", []solver.Channel{channel("c", made("a 2.0", "c >=2"), made("a 1.0", "c"), made("b 1.0", "c <2"), made("c 2.0"), made("c 1.0"))}, []string{"b", "a"}, false, "c-1.0 a-1.0 b-1.0"},
		{"constraints on installed packages only", []solver.Channel{channel("c", made("a 2.0"), made("a 1.0"), with(made("b 1.0"), func(r *spec.Record) { r.Constrains = []string{"a <2", "not-there >1"} }))}, []string{"b", "a"}, false, "a-1.0 b-1.0"},
		{"a dependency of an exact build", []solver.Channel{channel("c", made("a 1.0", "b ==1.0=*_1"), made("b 1.0 x_0"), made("b 1.0 x_1"))}, []string{"a"}, false, "b-1.0-x_1 a-1.0"},
		{"the first channel", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"a"}, false, "a-1.0"},
		{"a later channel for what the first lacks", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"b"}, false, "b-1.0"},
		{"no later version under strict priority", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"a 2.*"}, false, ""},
		{"a later version under flexible priority", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"a 2.*"}, true, "a-2.0"},
		{"the first channel rather than newer", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"a"}, true, "a-1.0"},
		{"a channel by name", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"late::a"}, false, "a-2.0"},
		{"a channel by name, for dependencies too", []solver.Channel{channel("first", made("a 1.0")), late}, []string{"late::a", "only-late"}, false, "a-2.0 only-late-1.0"},
		{"dependencies on the machine", []solver.Channel{channel("c", made("a 2.0", "__glibc >=2.40"), made("a 1.0", "__glibc >=2.17", "__archspec * x86_64_v3"))}, []string{"a"}, false, "a-1.0"},
		{"constraints on the machine", []solver.Channel{channel("c", with(made("a 2.0"), barring("__glibc >=2.40")), with(made("a 1.0"), barring("__glibc >=2.17")))}, []string{"a"}, false, "a-1.0"},
		{"constraints that the machine does not meet", []solver.Channel{channel("c", with(made("a 2.0"), barring("__glibc >=2.40")))}, []string{"a"}, false, ""},
		{"constraints on a virtual package that the machine lacks", []solver.Channel{channel("c", with(made("a 2.0"), barring("__cuda >=99")))}, []string{"a"}, false, "a-2.0"},
		{"a dependency cycle", []solver.Channel{channel("c", made("python 3.12", "pip"), made("pip 24", "python"), made("a 1", "python"))}, []string{"a"}, false, "python-3.12 a-1 pip-24"},
		{"a version that cannot be read", []solver.Channel{channel("c", made("a 1.0"), with(made("a 2.0"), func(r *spec.Record) { r.Version = "2..0" }))}, []string{"a"}, false, "a-1.0"},
		{"a dependency that cannot be read", []solver.Channel{channel("c", made("a 1.0"), made("a 2.0", "b >=>="), made("b 1.0"))}, []string{"a"}, false, "a-1.0"},
		{"only the .conda of two formats", []solver.Channel{channel("c", with(made("a 1.0"), func(r *spec.Record) { r.FileName = "a-1.0-0.tar.bz2"; r.BuildNumber = 9 }), made("a 1.0"))}, []string{"a[fn=a-1.0-0.tar.bz2]"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := solver.Problem{Specs: specs(t, c.specs...), Channels: c.channels, Flexible: c.flexible, Virtual: machine()}
			got, err := solver.Solve(t.Context(), p)
			var conflict *solver.Conflict
			switch {
			case err != nil && (c.want != "" || !errors.As(err, &conflict)):
				t.Fatal(err)
			case err != nil:
				return
			}
			var names []string
			for _, r := range got.Records {
				names = append(names, strings.TrimSuffix(r.Name+"-"+r.Version+"-"+r.Build, "-0"))
			}
			if text := strings.Join(names, " "); text != c.want {
				t.Errorf("solved as %q, want %q", text, c.want)
			}
			if c.name != "a dependency that cannot be read" {
				if err := verify(&p, got); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestSolveAnywhere(t *testing.T) {
	t.Parallel()
	p := solver.Problem{Specs: specs(t, "basecaller"), Channels: []solver.Channel{biology()}, Virtual: machine()}
	got, err := solver.SolveAnywhere(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(got.Virtual, func(v spec.VirtualPackage) bool { return v.Name == "__cuda" }) {
		t.Errorf("the solution does not include __cuda: %v", got.Virtual)
	}
	p.Virtual = append(p.Virtual, spec.VirtualPackage{Name: "__cuda", Version: "11.8", Build: "0"})
	if _, err := solver.SolveAnywhere(t.Context(), p); !errors.As(err, new(*solver.Conflict)) {
		t.Errorf("solved for a machine other than the requested one: %v", err)
	}
	p.Specs, p.Virtual = specs(t, "plugin"), machine()
	if _, err := solver.SolveAnywhere(t.Context(), p); !errors.As(err, new(*solver.Conflict)) {
		t.Errorf("solved an unrelated conflict: %v", err)
	}
}

// TestPlatformsAndChannels solves requests that have no reference result, and verifies the
// solutions.
func TestPlatformsAndChannels(t *testing.T) {
	t.Parallel()
	bioconda := channelOf(t, "bioconda", "linux-64")
	amd, arm := forge(t, "linux-64"), forge(t, "linux-aarch64")
	for _, c := range []struct {
		channels []solver.Channel
		specs    []string
	}{
		{[]solver.Channel{amd, bioconda}, []string{"seqkit 2.10.*", "vsearch"}},
		{[]solver.Channel{bioconda, amd}, []string{"bioconda::minimap2 2.29", "numpy"}},
		{[]solver.Channel{amd, bioconda}, []string{"cutadapt 5.0", "python 3.10.*"}},
		{[]solver.Channel{arm}, []string{"numpy", "pandas >=2"}},
		{[]solver.Channel{arm}, []string{"python 3.12.*", "scipy"}},
		{[]solver.Channel{arm}, []string{"openssl 3.*", "libcurl"}},
	} {
		p := solver.Problem{Specs: specs(t, c.specs...), Channels: c.channels, Virtual: machine()}
		got, err := solver.Solve(t.Context(), p)
		if err != nil {
			t.Errorf("%q: %v", c.specs, err)
			continue
		}
		if err := verify(&p, got); err != nil {
			t.Errorf("%q: %v", c.specs, err)
		}
	}
}

// backwards returns records in reverse order.
type backwards struct{ records }

func (b backwards) Records(name string) ([]spec.Record, error) {
	out := slices.Clone(b.records[name])
	slices.Reverse(out)
	return out, nil
}

// TestRecordOrderDoesNotMatter checks that the solution does not depend on the order of a
// source's records.
func TestRecordOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	linux, noarch := records(condadata.Records(t, "conda-forge", "linux-64")), records(condadata.Records(t, "conda-forge", "noarch"))
	var answers []string
	for _, sources := range [][]solver.Source{{linux, noarch}, {backwards{linux}, backwards{noarch}}} {
		p := solver.Problem{Specs: specs(t, "pandas", "matplotlib"), Channels: []solver.Channel{{Name: "conda-forge", Sources: sources}}, Virtual: machine()}
		got, err := solver.Solve(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, r := range got.Records {
			order = append(order, r.FileName)
		}
		answers = append(answers, strings.Join(order, " "))
	}
	if answers[0] != answers[1] {
		t.Errorf("the solutions differ:\n%s\n%s", answers[0], answers[1])
	}
}

type broken struct{}

func (broken) Records(string) ([]spec.Record, error) { return nil, fault.Unavailable.New("away", nil) }

func TestSourcesFail(t *testing.T) {
	t.Parallel()
	p := solver.Problem{Specs: specs(t, "a"), Channels: []solver.Channel{{Name: "c", Sources: []solver.Source{broken{}}}}}
	if _, err := solver.Solve(t.Context(), p); !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want the source's error", err)
	}
}

func TestTooManySpecs(t *testing.T) {
	t.Parallel()
	p := solver.Problem{Specs: make([]spec.MatchSpec, limits.CondaSpecs+1)}
	if _, err := solver.Solve(t.Context(), p); !errors.Is(err, fault.Invalid) {
		t.Errorf("got %v, want fault.Invalid", err)
	}
}

// pigeonholeProblem returns a pigeonhole problem, which takes a CDCL solver exponential time.
func pigeonholeProblem(t *testing.T, holes int) solver.Problem {
	t.Helper()
	var all []spec.Record
	var names []string
	for bird := range holes + 1 {
		name := fmt.Sprintf("bird%02d", bird)
		names = append(names, name)
		for hole := range holes {
			r := made(fmt.Sprintf("%s %d", name, hole), fmt.Sprintf("hole%02d %d", hole, bird))
			all = append(all, r)
		}
	}
	for hole := range holes {
		for bird := range holes + 1 {
			all = append(all, made(fmt.Sprintf("hole%02d %d", hole, bird)))
		}
	}
	return solver.Problem{Specs: specs(t, names...), Channels: []solver.Channel{channel("c", all...)}}
}

// A leaver is a source that cancels the caller during a call.
type leaver struct {
	solver.Source
	leave func()
	after string
}

func (l leaver) Records(name string) ([]spec.Record, error) {
	if name == l.after {
		l.leave()
	}
	return l.Source.Records(name)
}

// TestCancel checks that cancellation ends a long solve.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := pigeonholeProblem(t, 12)
	ctx, cancel := context.WithCancel(t.Context())
	p.Channels[0].Sources[0] = leaver{p.Channels[0].Sources[0], cancel, "hole11"}
	if _, err := solver.Solve(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the cancellation's error", err)
	}
}
