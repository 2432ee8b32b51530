package solver_test

import (
	"fmt"
	"strings"

	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
)

// verify checks whether a solution satisfies a problem. It shares only the parser of
// specifications with the solver.
func verify(p *solver.Problem, s *solver.Solution) error {
	chosen := map[string]*spec.Record{}
	for _, v := range s.Virtual {
		r := v.Record()
		chosen[v.Name] = &r
	}
	place := map[string]int{}
	for i := range s.Records {
		r := &s.Records[i]
		if chosen[r.Name] != nil {
			return fmt.Errorf("%s is installed twice", r.Name)
		}
		chosen[r.Name], place[r.Name] = r, i
		if err := isOffered(p, r); err != nil {
			return err
		}
	}
	reached := map[string]bool{}
	for _, wanted := range p.Specs {
		if r := chosen[wanted.Name]; r == nil || !wanted.Match(r) {
			return fmt.Errorf("the requested %s is not satisfied by %v", wanted, r)
		}
		reach(chosen, wanted.Name, reached)
	}
	for _, r := range chosen {
		if !strings.HasPrefix(r.Name, "__") && !reached[r.Name] {
			return fmt.Errorf("%s is not required", r.Name)
		}
		if err := verifyDependencies(chosen, r); err != nil {
			return err
		}
	}
	return isOrdered(chosen, place)
}

// isOffered returns an error unless the problem's channels provide a record.
func isOffered(p *solver.Problem, r *spec.Record) error {
	if !p.ExcludeNewer.IsZero() && r.Timestamp > p.ExcludeNewer.UnixMilli() {
		return fmt.Errorf("%s is too new", r.FileName)
	}
	pinned := false
	for _, wanted := range p.Specs {
		pinned = pinned || (wanted.Name == r.Name && wanted.Channel != "")
	}
	for _, c := range p.Channels {
		has, fits := false, false
		for _, source := range c.Sources {
			records, err := source.Records(r.Name)
			if err != nil {
				return err
			}
			for i := range records {
				has = true
				fits = fits || (records[i].FileName == r.FileName && records[i].SHA256 == r.SHA256 && records[i].Subdir == r.Subdir)
				if twin := strings.TrimSuffix(r.FileName, ".tar.bz2") + ".conda"; r.FileName != twin && records[i].FileName == twin && records[i].Subdir == r.Subdir {
					return fmt.Errorf("%s also exists as .conda", r.FileName)
				}
			}
		}
		if fits {
			return nil
		}
		if has && !p.Flexible && !pinned {
			return fmt.Errorf("%s is not from the first channel that has the name", r.FileName)
		}
	}
	return fmt.Errorf("%s is not in any channel", r.FileName)
}

// verifyDependencies returns an error unless the dependencies and constraints of a record are
// satisfied.
func verifyDependencies(chosen map[string]*spec.Record, r *spec.Record) error {
	for i, text := range append(append([]string(nil), r.Depends...), r.Constrains...) {
		wanted, err := spec.ParseMatchSpec(text)
		if err != nil {
			return err
		}
		other := chosen[wanted.Name]
		if other == nil && i >= len(r.Depends) {
			continue
		}
		if other == nil || !wanted.Match(other) {
			return fmt.Errorf("%s requires %q, got %v", r.FileName, text, other)
		}
	}
	return nil
}

// reach marks all transitive dependencies of a package.
func reach(chosen map[string]*spec.Record, name string, marked map[string]bool) {
	r := chosen[name]
	if r == nil || marked[name] {
		return
	}
	marked[name] = true
	for _, text := range r.Depends {
		if wanted, err := spec.ParseMatchSpec(text); err == nil {
			reach(chosen, wanted.Name, marked)
		}
	}
}

// isOrdered returns an error unless dependencies come before a package, except in cycles.
func isOrdered(chosen map[string]*spec.Record, place map[string]int) error {
	for name, at := range place {
		for _, text := range chosen[name].Depends {
			wanted, err := spec.ParseMatchSpec(text)
			if err != nil {
				return err
			}
			before, ok := place[wanted.Name]
			if !ok || before < at {
				continue
			}
			back := map[string]bool{}
			reach(chosen, wanted.Name, back)
			if !back[name] {
				return fmt.Errorf("%s comes before its dependency %s", name, wanted.Name)
			}
		}
	}
	return nil
}
