package conda

import (
	"strings"

	"slipway.dev/services/internal/fault"
)

// Lock is an environment that was solved: which artifacts it consists of, on each
// platform. The zero value has none.
type Lock struct {
	// Channels are those it was solved from, best first: names or URLs, as its file
	// writes them. An explicit list does not say.
	Channels []string
	// Platforms are in the file's order, each once.
	Platforms []PlatformLock
}

// PlatformLock is a lock for one platform.
type PlatformLock struct {
	// Platform is a subdir other than noarch, e.g. "linux-64"; "" where an explicit
	// list of noarch packages does not say.
	Platform string
	// Packages are in the file's order; see Sorted. Formats leave out what is not in
	// the name of an artifact: an explicit list all but its hash.
	Packages []Record
	// PyPI are the packages that pip would add; who installs Packages alone must say
	// that these are missing.
	PyPI []PyPIPackage
}

// PyPIPackage is a package of the Python Package Index, as a lock lists it.
type PyPIPackage struct {
	Name, Version string
	// URL is where its wheel or source distribution is.
	URL string
	// SHA256 is of that, in hex; "" is unknown.
	SHA256 string
}

// LockFormat is how a lock is written down.
type LockFormat string

// The formats.
const (
	// FormatExplicit is a list of addresses for one platform (CEP 23).
	FormatExplicit LockFormat = "explicit"
	// FormatCondaLock is conda-lock.yml, version 1 (CEP 37).
	FormatCondaLock LockFormat = "conda-lock"
	// FormatPixi is pixi.lock: read in versions 4 to 7, written in version 6.
	FormatPixi LockFormat = "pixi"
)

// ReadLock reads a lock of any format. A file may hold several environments: those
// of a pixi.lock by name, "" is "default"; of a conda-lock.yml the category "main",
// and the one that environment names beside it. fault.Invalid says, for its
// author, why a file cannot be used.
func ReadLock(text, environment string) (Lock, error) {
	if err := checkText(text); err != nil {
		return Lock{}, fault.Invalid.Newf("the lock cannot be read: %s", err)
	}
	if isExplicit(text) {
		return readExplicit(text)
	}
	file, err := parseYAML(text)
	if err != nil {
		return Lock{}, fault.Invalid.Newf("the lock cannot be read: %s", err)
	}
	top := members(file.root)
	switch {
	case top["package"] != nil:
		return readCondaLock(top, environment)
	case top["environments"] != nil:
		return readPixi(top, environment)
	}
	return Lock{}, fault.Invalid.Newf("the file is no lock: it is none of an @EXPLICIT list, a conda-lock.yml and a pixi.lock")
}

// Text writes the lock down. fault.Invalid for an explicit list of several platforms,
// and for a format that is none of the three.
func (l Lock) Text(f LockFormat) (string, error) {
	switch {
	case f == FormatCondaLock:
		return l.CondaLock()
	case f == FormatPixi:
		return l.Pixi()
	case f != FormatExplicit:
		return "", fault.Invalid.Newf("format must be explicit, conda-lock or pixi; without one the response is JSON")
	case len(l.Platforms) != 1:
		return "", fault.Invalid.Newf("An explicit lock is for one platform: name one, or ask for conda-lock or pixi")
	}
	return l.Platforms[0].Explicit()
}

// For is the lock of one platform. fault.NotFound lists the platforms that there
// are. A list that does not say its platform is for all of them.
func (l Lock) For(platform string) (PlatformLock, error) {
	var names []string
	for _, p := range l.Platforms {
		if p.Platform == platform || p.Platform == "" {
			return p, nil
		}
		names = append(names, p.Platform)
	}
	if names == nil {
		return PlatformLock{}, fault.NotFound.Newf("the lock is empty")
	}
	return PlatformLock{}, fault.NotFound.Newf("the lock is not for %s; it is for %s", clip(platform), strings.Join(names, ", "))
}

// platform is where the packages of a platform are collected, made when it is
// first named.
func (l *Lock) platform(name string) *PlatformLock {
	for i := range l.Platforms {
		if l.Platforms[i].Platform == name {
			return &l.Platforms[i]
		}
	}
	l.Platforms = append(l.Platforms, PlatformLock{Platform: name})
	return &l.Platforms[len(l.Platforms)-1]
}

// Sorted are the packages in such an order that each comes after what it depends
// on, as far as their dependencies are known: they stay where they are otherwise,
// and where they depend on each other.
func (p PlatformLock) Sorted() []Record {
	at := make(map[string]int, len(p.Packages))
	for i, r := range p.Packages {
		at[r.Name] = i
	}
	var out []Record
	seen := make([]bool, len(p.Packages))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, d := range p.Packages[i].Depends {
			if j, ok := at[dependencyName(d)]; ok {
				visit(j)
			}
		}
		out = append(out, p.Packages[i])
	}
	for i := range p.Packages {
		visit(i)
	}
	return out
}

// Needs are the names of the packages that a record depends on.
func (r Record) Needs() []string {
	out := make([]string, 0, len(r.Depends))
	for _, d := range r.Depends {
		out = append(out, dependencyName(d))
	}
	return out
}

// dependencyName is the name in front of a dependency.
func dependencyName(spec string) string {
	return spec[:leading(spec, isNameLetter)]
}
