package lockfile

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// A Change is a package that differs between two locks.
type Change struct {
	// Platform is the platform, e.g. "linux-64".
	Platform string
	// Old and New are its records. Old is nil if the package was added, New if it was
	// removed.
	Old, New *spec.Record
}

// Diff returns the changes from one lock to another by platform, then by name; none if both
// have the same artifacts. It ignores order, channels and PyPI packages.
func (l Lock) Diff(to Lock) []Change {
	var all []Change
	platforms := slices.Concat(l.platforms(), to.platforms())
	slices.Sort(platforms)
	for _, name := range slices.Compact(platforms) {
		all = append(all, changes(name, l.byName(name), to.byName(name))...)
	}
	return all
}

func changes(platform string, old, now map[string]*spec.Record) []Change {
	var all []Change
	for name, a := range old {
		if b := now[name]; b == nil || !a.SameArtifact(*b) {
			all = append(all, Change{platform, a, b})
		}
	}
	for name, b := range now {
		if old[name] == nil {
			all = append(all, Change{platform, nil, b})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.name(), b.name()) })
	return all
}

func (c Change) name() string {
	return cmp.Or(c.Old, c.New).Name
}

func (l Lock) byName(platform string) map[string]*spec.Record {
	all := map[string]*spec.Record{}
	for _, p := range l.Platforms {
		if p.Platform != platform {
			continue
		}
		for _, r := range p.Packages {
			all[r.Name] = &r
		}
	}
	return all
}

// forPlatforms returns an error unless every platform has a name, which all formats except
// the explicit one require.
func (l Lock) forPlatforms() error {
	if slices.Contains(l.platforms(), "") {
		return fault.Invalid.Newf("the lock does not state its platform, which the requested format needs: add a line such as # platform: linux-64")
	}
	return nil
}

// written parses a lock file that was just written and compares it with the lock. It returns
// an error instead of a file that would be read as another lock.
func written(text string, from Lock) (string, error) {
	back, err := Read(text, "")
	if err != nil {
		return "", fault.In("a record cannot be written into a lock", err)
	}
	if c := back.Diff(from); len(c) > 0 {
		return "", fault.Invalid.Newf("%s cannot be written into a lock", fault.Quote(c[0].name()))
	}
	same := func(a, b spec.PyPIPackage) bool {
		return a.Name == b.Name && a.Version == b.Version && a.SHA256 == b.SHA256
	}
	if !isExplicit(text) && !slices.EqualFunc(back.wheels(), from.wheels(), same) {
		return "", fault.Invalid.Newf("a package of PyPI cannot be written into a lock")
	}
	return text, nil
}
