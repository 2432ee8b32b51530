package conda

import (
	"slices"
	"strconv"
	"strings"
)

// Pixi returns a pixi.lock, version 6, with the single environment "default". It returns
// fault.Invalid if a platform has no name, or if a record cannot be written.
func (l Lock) Pixi() (string, error) {
	if err := l.forPlatforms(); err != nil {
		return "", err
	}
	w := yamlWriter{}
	w.line(0, "version: 6")
	w.line(0, "environments:")
	w.line(2, defaultEnvironment+":")
	w.list(4, "channels", len(l.Channels))
	for i, c := range l.Channels {
		if i < len(l.ChannelURLs) { // pixi only reads addresses
			c = strings.TrimRight(l.ChannelURLs[i], "/") + "/"
		}
		w.line(4, "- url: "+quote(c))
	}
	wheels := l.wheels()
	if isPublic := func(py PyPIPackage) bool { return strings.HasPrefix(py.URL, "https://files.pythonhosted.org/") }; slices.ContainsFunc(wheels, isPublic) {
		w.line(4, "indexes:")
		w.line(4, "- https://pypi.org/simple")
	}
	if len(l.Platforms) == 0 {
		w.line(4, "packages: {}")
	} else {
		w.line(4, "packages:")
	}
	for _, p := range l.Platforms {
		w.list(6, quote(p.Platform), len(p.Packages)+len(p.PyPI))
		for _, r := range p.Packages {
			w.line(6, "- conda: "+quote(r.URL))
		}
		for _, py := range p.PyPI {
			w.line(6, "- pypi: "+quote(py.URL))
		}
	}
	all := l.artifacts()
	w.list(0, "packages", len(all)+len(wheels))
	for _, r := range all {
		w.pixiPackage(r)
	}
	for _, py := range wheels {
		w.pixiWheel(py)
	}
	return written(w.String(), l)
}

// pixiPackage writes the description of an artifact without the fields that follow from its
// address.
func (w *yamlWriter) pixiPackage(r Record) {
	w.line(0, "- conda: "+quote(r.URL))
	if r.BuildNumber != buildNumber(r.Build) {
		w.line(2, "build_number: "+strconv.FormatUint(r.BuildNumber, 10))
	}
	if r.NoArch != noArch(r) {
		w.member(2, "noarch", r.NoArch)
	}
	w.member(2, "sha256", r.SHA256)
	w.member(2, "md5", r.MD5)
	w.texts("depends", r.Depends)
	w.texts("constrains", r.Constrains)
	w.texts("track_features", r.TrackFeatures)
	w.member(2, "python_site_packages_path", r.PythonSitePackagesPath)
	w.member(2, "license", r.License)
	w.member(2, "license_family", r.LicenseFamily)
	if r.Size > 0 {
		w.line(2, "size: "+strconv.FormatInt(r.Size, 10))
	}
	if r.Timestamp > 0 {
		w.line(2, "timestamp: "+strconv.FormatInt(r.Timestamp, 10))
	}
}

// pixiWheel writes the description of a package of PyPI.
func (w *yamlWriter) pixiWheel(py PyPIPackage) {
	w.line(0, "- pypi: "+quote(py.URL))
	w.member(2, "name", py.Name)
	w.member(2, "version", py.Version)
	w.member(2, "sha256", py.SHA256)
	w.texts("requires_dist", py.Requires)
	w.member(2, "requires_python", py.RequiresPython)
}

// wheels returns the packages of PyPI of all platforms by address, without duplicates.
func (l Lock) wheels() []PyPIPackage {
	var all []PyPIPackage
	for _, p := range l.Platforms {
		all = append(all, p.PyPI...)
	}
	slices.SortStableFunc(all, func(a, b PyPIPackage) int { return strings.Compare(a.URL, b.URL) })
	return slices.CompactFunc(all, func(a, b PyPIPackage) bool { return a.URL == b.URL })
}

func (w *yamlWriter) texts(key string, list []string) {
	if len(list) == 0 {
		return
	}
	w.list(2, key, len(list))
	for _, s := range list {
		w.line(2, "- "+quote(s))
	}
}

// artifacts returns the Conda packages of all platforms by address, without duplicates.
func (l Lock) artifacts() []Record {
	var all []Record
	for _, p := range l.Platforms {
		all = append(all, p.Packages...)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return strings.Compare(a.URL, b.URL) })
	return slices.CompactFunc(all, func(a, b Record) bool { return a.URL == b.URL })
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
