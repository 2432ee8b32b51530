package lockfile

import (
	"slices"
	"strconv"
	"strings"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
)

// Pixi returns a pixi.lock, version 6, with the single environment "default". It returns
// fault.Invalid if a platform has no name, or if a record cannot be written.
func (l Lock) Pixi() (string, error) {
	if err := l.forPlatforms(); err != nil {
		return "", err
	}
	w := markup.YAMLWriter{}
	w.Line(0, "version: 6")
	w.Line(0, "environments:")
	w.Line(2, envfile.DefaultName+":")
	w.List(4, "channels", len(l.Channels))
	for i, c := range l.Channels {
		if i < len(l.ChannelURLs) { // pixi only reads addresses
			c = strings.TrimRight(l.ChannelURLs[i], "/") + "/"
		}
		w.Line(4, "- url: "+markup.Quote(c))
	}
	wheels := l.wheels()
	if isPublic := func(py spec.PyPIPackage) bool { return strings.HasPrefix(py.URL, "https://files.pythonhosted.org/") }; slices.ContainsFunc(wheels, isPublic) {
		w.Line(4, "indexes:")
		w.Line(4, "- https://pypi.org/simple")
	}
	if len(l.Platforms) == 0 {
		w.Line(4, "packages: {}")
	} else {
		w.Line(4, "packages:")
	}
	for _, p := range l.Platforms {
		w.List(6, markup.Quote(p.Platform), len(p.Packages)+len(p.PyPI))
		for _, r := range p.Packages {
			w.Line(6, "- conda: "+markup.Quote(r.URL))
		}
		for _, py := range p.PyPI {
			w.Line(6, "- pypi: "+markup.Quote(py.URL))
		}
	}
	all := l.artifacts()
	w.List(0, "packages", len(all)+len(wheels))
	for _, r := range all {
		writePixiPackage(&w, r)
	}
	for _, py := range wheels {
		writePixiWheel(&w, py)
	}
	return written(w.String(), l)
}

// writePixiPackage writes the description of an artifact without the fields that follow from its
// address.
func writePixiPackage(w *markup.YAMLWriter, r spec.Record) {
	w.Line(0, "- conda: "+markup.Quote(r.URL))
	if r.BuildNumber != spec.BuildNumberOf(r.Build) {
		w.Line(2, "build_number: "+strconv.FormatUint(r.BuildNumber, 10))
	}
	if r.NoArch != spec.NoArchOf(r) {
		w.Member(2, "noarch", r.NoArch)
	}
	w.Member(2, "sha256", r.SHA256)
	w.Member(2, "md5", r.MD5)
	w.Strings("depends", r.Depends)
	w.Strings("constrains", r.Constrains)
	w.Strings("track_features", r.TrackFeatures)
	w.Member(2, "python_site_packages_path", r.PythonSitePackagesPath)
	w.Member(2, "license", r.License)
	w.Member(2, "license_family", r.LicenseFamily)
	if r.Size > 0 {
		w.Line(2, "size: "+strconv.FormatInt(r.Size, 10))
	}
	if r.Timestamp > 0 {
		w.Line(2, "timestamp: "+strconv.FormatInt(r.Timestamp, 10))
	}
}

// writePixiWheel writes the description of a package of PyPI.
func writePixiWheel(w *markup.YAMLWriter, py spec.PyPIPackage) {
	w.Line(0, "- pypi: "+markup.Quote(py.URL))
	w.Member(2, "name", py.Name)
	w.Member(2, "version", py.Version)
	w.Member(2, "sha256", py.SHA256)
	w.Strings("requires_dist", py.Requires)
	w.Member(2, "requires_python", py.RequiresPython)
}

// wheels returns the packages of PyPI of all platforms by address, without duplicates.
func (l Lock) wheels() []spec.PyPIPackage {
	var all []spec.PyPIPackage
	for _, p := range l.Platforms {
		all = append(all, p.PyPI...)
	}
	slices.SortStableFunc(all, func(a, b spec.PyPIPackage) int { return strings.Compare(a.URL, b.URL) })
	return slices.CompactFunc(all, func(a, b spec.PyPIPackage) bool { return a.URL == b.URL })
}

// artifacts returns the Conda packages of all platforms by address, without duplicates.
func (l Lock) artifacts() []spec.Record {
	var all []spec.Record
	for _, p := range l.Platforms {
		all = append(all, p.Packages...)
	}
	slices.SortStableFunc(all, func(a, b spec.Record) int { return strings.Compare(a.URL, b.URL) })
	return slices.CompactFunc(all, func(a, b spec.Record) bool { return a.URL == b.URL })
}

func (l Lock) platforms() []string {
	var all []string
	for _, p := range l.Platforms {
		all = append(all, p.Platform)
	}
	return all
}

// size returns the number of packages on all platforms.
func (l Lock) size() int {
	n := 0
	for _, p := range l.Platforms {
		n += len(p.Packages) + len(p.PyPI)
	}
	return n
}
