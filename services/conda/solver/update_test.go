package solver_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// TestUpdate checks that packages only change if necessary.
func TestUpdate(t *testing.T) {
	t.Parallel()
	all := []spec.Record{
		made("python 3.11"), made("python 3.12"), made("lib 1"), made("lib 2"), made("other 1"), made("other 2"), made("extra 1", "lib"),
		made("num 1 py311", "python 3.11", "lib"), made("num 2 py311", "python 3.11", "lib"), made("num 2 py312", "python 3.12", "lib"),
		made("num 3 py312", "python 3.12", "lib >=2"), made("app 1", "other", "python"),
	}
	installed := func(names ...string) (out []spec.Record) {
		for _, n := range names {
			i := slices.IndexFunc(all, func(r spec.Record) bool { return r.Name+" "+r.Version+" "+r.Build == n || r.Name+" "+r.Version == n })
			out = append(out, all[i])
		}
		return out
	}
	lock := installed("python 3.11", "lib 1", "num 1 py311", "other 1", "app 1")
	gone := made("lib 0")
	for _, c := range []struct {
		name      string
		installed []spec.Record
		specs     []string
		updated   []string
		want      string
	}{
		{"nothing is updated", lock, []string{"num", "app"}, nil, "app-1 lib-1 num-1 other-1 python-3.11"},
		{"a package without dependents", lock, []string{"other", "num", "app"}, []string{"other"}, "app-1 lib-1 num-1 other-2 python-3.11"},
		{"a package with dependencies that must change", lock, []string{"num", "app"}, []string{"num"}, "app-1 lib-2 num-3 other-1 python-3.12"},
		{"a package with a version bound", lock, []string{"num <3", "app"}, []string{"num"}, "app-1 lib-1 num-2 other-1 python-3.11"},
		{"a new package", lock, []string{"extra", "num", "app"}, []string{"extra"}, "app-1 extra-1 lib-1 num-1 other-1 python-3.11"},
		{"a package that no channel has any more", append([]spec.Record{gone}, installed("python 3.11", "num 1 py311", "other 1", "app 1")...), []string{"other", "num", "app"}, []string{"other"}, "app-1 lib-0 num-1 other-2 python-3.11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := solver.Problem{Specs: specs(t, c.specs...), Channels: []solver.Channel{channel("c", all...)}}
			p.Installed = slices.DeleteFunc(slices.Clone(c.installed), func(r spec.Record) bool { return slices.Contains(c.updated, r.Name) })
			got, isMinimal, err := solver.Update(t.Context(), p, c.updated)
			if err != nil || !isMinimal {
				t.Fatal(isMinimal, err)
			}
			var names []string
			for _, r := range got.Records {
				names = append(names, r.Name+"-"+r.Version)
			}
			slices.Sort(names)
			if text := strings.Join(names, " "); text != c.want {
				t.Errorf("updated to %s, want %s", text, c.want)
			}
		})
	}
}

// TestUpdateChangesTheFewest checks on small random problems that no changed package could
// have kept its record, by solving without the other records of the package.
func TestUpdateChangesTheFewest(t *testing.T) {
	t.Parallel()
	changes := 0
	for seed := range uint64(150) {
		draw := rand.New(rand.NewPCG(seed, 29))
		all := random(draw)
		for i := range all {
			all[i].Channel = "c"
		}
		p := solver.Problem{Channels: []solver.Channel{channel("c", all...)}, Specs: specs(t, randomSpec(draw, -1), randomSpec(draw, -1))}
		old, err := solver.Solve(t.Context(), p)
		if err != nil {
			continue
		}
		wanted := specs(t, randomSpec(draw, -1))[0]
		p.Specs = append([]spec.MatchSpec{wanted}, p.Specs...)
		p.Installed = slices.DeleteFunc(slices.Clone(old.Records), func(r spec.Record) bool { return r.Name == wanted.Name })
		got, isMinimal, err := solver.Update(t.Context(), p, []string{wanted.Name})
		if errors.As(err, new(*solver.Conflict)) {
			if exists(&p, all) {
				t.Errorf("seed %d: %v is satisfiable", seed, p.Specs)
			}
			continue
		}
		if err != nil || !isMinimal {
			t.Fatal(seed, isMinimal, err)
		}
		if err := verify(&p, got); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		changes += checkFewest(t, seed, &p, all, got, wanted.Name)
	}
	if changes < 10 {
		t.Errorf("only %d packages changed: too few for a conclusion", changes)
	}
}

// checkFewest checks that no changed package could have kept its record, and returns the
// number of changed packages.
func checkFewest(t *testing.T, seed uint64, p *solver.Problem, all []spec.Record, got *solver.Solution, updated string) int {
	t.Helper()
	var changed []string
	stay := map[string]string{} // versions that the environment must have
	for _, r := range got.Records {
		if r.Name == updated {
			stay[r.Name] = r.Version
		}
	}
	for _, r := range p.Installed {
		i := slices.IndexFunc(got.Records, func(o spec.Record) bool { return o.Name == r.Name })
		if i >= 0 && got.Records[i].Version != r.Version {
			changed = append(changed, r.Name)
		} else {
			stay[r.Name] = r.Version
		}
	}
	for _, name := range changed {
		i := slices.IndexFunc(p.Installed, func(r spec.Record) bool { return r.Name == name })
		stay[name] = p.Installed[i].Version
		var kept []spec.Record
		for _, r := range all { // without other records of these packages
			if v, ok := stay[r.Name]; !ok || v == r.Version {
				kept = append(kept, r)
			}
		}
		one := solver.Problem{Specs: p.Specs, Channels: []solver.Channel{channel("c", kept...)}}
		if _, err := solver.Solve(t.Context(), one); !errors.As(err, new(*solver.Conflict)) {
			t.Errorf("seed %d: %s changed, and could have stayed: %v", seed, name, err)
		}
		delete(stay, name)
	}
	return len(changed)
}

// TestUpdateOfRealLocks updates one package in locks that were solved as of an earlier time.
func TestUpdateOfRealLocks(t *testing.T) {
	t.Parallel()
	channels := []solver.Channel{forge(t, "linux-64")}
	updates, kept, total := 0, 0, 0
	var longest time.Duration
	for n, c := range condadata.Solves(t) {
		if n%16 != 0 {
			continue
		}
		p := solver.Problem{Specs: specs(t, c.Specs...), Channels: channels, Virtual: machine(), ExcludeNewer: time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)}
		old, err := solver.Solve(t.Context(), p)
		if err != nil {
			continue
		}
		name := old.Records[n%len(old.Records)].Name
		p.ExcludeNewer = time.Time{}
		p.Specs = append(specs(t, name), p.Specs...)
		p.Installed = slices.DeleteFunc(slices.Clone(old.Records), func(r spec.Record) bool { return r.Name == name })
		began := time.Now()
		got, _, err := solver.Update(t.Context(), p, []string{name})
		longest = max(longest, time.Since(began))
		if err != nil {
			t.Errorf("%q, %s: %v", c.Specs, name, err)
			continue
		}
		if err := verify(&p, got); err != nil {
			t.Errorf("%q, %s: %v", c.Specs, name, err)
		}
		updates++
		for _, r := range p.Installed {
			total++
			if slices.ContainsFunc(got.Records, func(o spec.Record) bool { return o.SameArtifact(r) }) {
				kept++
			}
		}
	}
	t.Logf("%d updates kept %d of %d packages; the longest took %v", updates, kept, total, longest)
	if updates < 12 || 100*kept < 85*total {
		t.Errorf("%d updates kept %d of %d packages", updates, kept, total)
	}
}

// TestHold checks that no installed package changes except those that are free, and that there is
// no solution if others must change.
func TestHold(t *testing.T) {
	t.Parallel()
	all := []spec.Record{
		made("ssl 3.0"), made("ssl 3.1", "certs >=2"), made("ssl 4.0", "certs >=2"), made("certs 1"), made("certs 2"), made("more 1"),
		made("app 1", "ssl <4", "certs"), made("tool 1", "ssl >=3.1", "more"),
	}
	installed := []spec.Record{all[0], all[3], all[6]}
	for _, c := range []struct {
		name  string
		specs []string
		free  []string
		want  string
	}{
		{"everything fits", []string{"app"}, nil, "app-1 certs-1 ssl-3.0"},
		{"another package must change", []string{"app", "ssl >=3.1"}, []string{"ssl"}, ""},
		{"another package may change", []string{"app", "ssl >=3.1"}, []string{"ssl", "certs"}, "app-1 certs-2 ssl-3.1"},
		{"a free package is not changed without need", []string{"app"}, []string{"ssl", "certs"}, "app-1 certs-1 ssl-3.0"},
		{"a package is added", []string{"app", "more"}, nil, "app-1 certs-1 more-1 ssl-3.0"},
		{"no version exists", []string{"app", "ssl >=4"}, []string{"ssl", "certs"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := solver.Problem{Specs: specs(t, c.specs...), Channels: []solver.Channel{channel("c", all...)}, Installed: installed}
			got, err := solver.Hold(t.Context(), p, c.free)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			if got != nil {
				for _, r := range got.Records {
					names = append(names, r.Name+"-"+r.Version)
				}
			}
			slices.Sort(names)
			if text := strings.Join(names, " "); text != c.want {
				t.Errorf("held %q, want %q", text, c.want)
			}
		})
	}
}
