package conda

import (
	"cmp"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
)

// Change is a package in which two locks differ.
type Change struct {
	// Platform is where, e.g. "linux-64".
	Platform string
	// Old and New are its records; one that is nil was added, or removed.
	Old, New *Record
}

// Diff says what has to change on the way from a lock to another: by platform, then
// by name; none where both stand for the same artifacts. Order, channels and what
// pip would add do not count.
func (l Lock) Diff(to Lock) []Change {
	var all []Change
	platforms := slices.Concat(l.platforms(), to.platforms())
	slices.Sort(platforms)
	for _, name := range slices.Compact(platforms) {
		all = append(all, changes(name, l.byName(name), to.byName(name))...)
	}
	return all
}

func changes(platform string, old, now map[string]*Record) []Change {
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

func (l Lock) byName(platform string) map[string]*Record {
	all := map[string]*Record{}
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

// SameArtifact says whether two records are of the same file: by a hash that both
// know, else by their address.
func (r Record) SameArtifact(other Record) bool {
	switch {
	case r.FileName != other.FileName:
		return false
	case r.SHA256 != "" && other.SHA256 != "":
		return r.SHA256 == other.SHA256
	case r.MD5 != "" && other.MD5 != "":
		return r.MD5 == other.MD5
	}
	return r.URL == other.URL
}

// forPlatforms wants every platform named, as all formats but the explicit one do.
func (l Lock) forPlatforms() error {
	if slices.Contains(l.platforms(), "") {
		return fault.Invalid.Newf("the lock does not say its platform, which its new format needs: add a line such as # platform: linux-64")
	}
	return nil
}

// written holds a text against the lock that it was made of: a record with an address
// that is none is not written, nor a text that reads as something else.
func written(text string, from Lock) (string, error) {
	back, err := ReadLock(text, "")
	if err != nil {
		return "", fault.In("a record cannot be written into a lock", err)
	}
	if c := back.Diff(from); len(c) > 0 {
		return "", fault.Invalid.Newf("%s cannot be written into a lock", clip(c[0].name()))
	}
	return text, nil
}
