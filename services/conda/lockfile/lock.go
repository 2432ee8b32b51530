// Package lockfile reads, writes and compares files of solved Conda environments: explicit
// lists, conda-lock.yml and pixi.lock. It does no I/O.
package lockfile

import (
	"strings"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// A Lock is a solved environment: the artifacts that it consists of on each platform. The
// zero value has none.
type Lock struct {
	// Channels lists the names or URLs of its channels as in its file, by priority, highest
	// first. Explicit lists have none.
	Channels []string
	// ChannelURLs lists their addresses in the same order; nil if unknown.
	ChannelURLs []string
	// Platforms is in the file's order, without duplicates.
	Platforms []PlatformLock
	// Comments are lines that Text writes before the lock; see Provenance. Locks that were
	// read have none.
	Comments []string
}

// A PlatformLock is a lock for one platform.
type PlatformLock struct {
	// Platform is a subdir other than noarch, e.g. "linux-64"; "" for an explicit list of
	// noarch packages only.
	Platform string
	// Packages is in the file's order; see Sorted. Depending on the format, data is
	// missing: an explicit list only has the artifact's name and hash.
	Packages []spec.Record
	// PyPI lists the packages that pip would add; see PyPIPackage.Wheel.
	PyPI []spec.PyPIPackage
}

// A Format is a file format of locks.
type Format string

// The formats.
const (
	// FormatExplicit is a list of addresses for one platform with their MD5 (CEP 23).
	// FormatExplicitSHA256 has their SHA-256 instead.
	FormatExplicit       Format = "explicit"
	FormatExplicitSHA256 Format = "explicit-sha256"
	// FormatCondaLock is conda-lock.yml, version 1 (CEP 37).
	FormatCondaLock Format = "conda-lock"
	// FormatPixi is pixi.lock. Versions 4 to 7 are read; version 6 is written.
	FormatPixi Format = "pixi"
)

// Read parses a lock of any format. environment selects one of several environments in
// a file: the name of an environment in a pixi.lock, where "" is "default", or a category
// of a conda-lock.yml in addition to "main". It returns fault.Invalid, with an explanation
// for the author, if a file cannot be used.
func Read(text, environment string) (Lock, error) {
	if err := markup.CheckText(text); err != nil {
		return Lock{}, fault.Invalid.Newf("the lock cannot be read: %s", err)
	}
	if isExplicit(text) {
		return readExplicit(text)
	}
	file, err := markup.ParseYAML(text)
	if err != nil {
		return Lock{}, fault.Invalid.Newf("the lock cannot be read: %s", err)
	}
	top := markup.Members(file.Root)
	switch {
	case top["package"] != nil:
		return readCondaLock(top, environment)
	case top["environments"] != nil:
		return readPixi(top, environment)
	}
	return Lock{}, fault.Invalid.Newf("the file is no lock: it is none of an @EXPLICIT list, a conda-lock.yml and a pixi.lock")
}

// ForOnePlatform reports whether a lock in the format is for one platform only.
func (f Format) ForOnePlatform() bool {
	return f == FormatExplicit || f == FormatExplicitSHA256
}

// Check returns fault.Invalid for an unknown format.
func (f Format) Check() error {
	switch f {
	case FormatExplicit, FormatExplicitSHA256, FormatCondaLock, FormatPixi:
		return nil
	}
	return fault.Invalid.Newf("format must be explicit, explicit-sha256, conda-lock or pixi; without one the response is JSON")
}

// IsLock reports whether a file is a lock rather than an environment file or a pixi.toml,
// whose strings may contain any line. It only looks for lines that each format must have.
func IsLock(text string) bool {
	if envfile.IsPixi(text) {
		return false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == explicitMark || strings.HasPrefix(line, "package:") || strings.HasPrefix(line, "environments:") {
			return true
		}
	}
	return false
}

// Text returns the lock as a file. It returns fault.Invalid for an explicit list of several
// platforms and for an unknown format.
func (l Lock) Text(f Format) (text string, err error) {
	switch {
	case f == FormatCondaLock:
		text, err = l.CondaLock()
	case f == FormatPixi:
		text, err = l.Pixi()
	case !f.ForOnePlatform():
		err = f.Check()
	case len(l.Platforms) != 1:
		err = fault.Invalid.Newf("An explicit lock is for one platform: select one, or the format conda-lock or pixi")
	case len(l.Platforms[0].PyPI) > 0:
		err = fault.Invalid.Newf("An explicit lock cannot list wheels, such as that of %s: ask for conda-lock or pixi", fault.Quote(l.Platforms[0].PyPI[0].Name))
	default:
		text, err = l.Platforms[0].Explicit(f == FormatExplicitSHA256)
	}
	if err != nil {
		return "", err
	}
	return l.comments() + text, nil
}

// For returns the lock of one platform. If the lock does not have the platform, For returns
// fault.NotFound with the list of its platforms. A list without a platform is valid for all
// platforms.
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
	return PlatformLock{}, fault.NotFound.Newf("the lock is not for %s; it is for %s", fault.Quote(platform), strings.Join(names, ", "))
}

// platform returns the lock of a platform and creates it if needed.
func (l *Lock) platform(name string) *PlatformLock {
	for i := range l.Platforms {
		if l.Platforms[i].Platform == name {
			return &l.Platforms[i]
		}
	}
	l.Platforms = append(l.Platforms, PlatformLock{Platform: name})
	return &l.Platforms[len(l.Platforms)-1]
}

// Sorted returns the packages with dependencies first. If dependencies are unknown, and in
// dependency cycles, the order is unchanged.
func (p PlatformLock) Sorted() []spec.Record {
	at := make(map[string]int, len(p.Packages))
	for i, r := range p.Packages {
		at[r.Name] = i
	}
	var out []spec.Record
	seen := make([]bool, len(p.Packages))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		for _, d := range p.Packages[i].Depends {
			if j, ok := at[spec.DependencyName(d)]; ok {
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
