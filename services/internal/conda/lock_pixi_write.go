package conda

import (
	"slices"
	"strconv"
	"strings"
)

// Pixi writes a pixi.lock, version 6, with the one environment "default". What pip
// would add is not in it. An error is one of the records.
func (l Lock) Pixi() (string, error) {
	if err := l.forPlatforms(); err != nil {
		return "", err
	}
	w := yamlWriter{}
	w.line(0, "version: 6")
	w.line(0, "environments:")
	w.line(2, defaultEnvironment+":")
	w.list(4, "channels", len(l.Channels))
	for _, c := range l.Channels {
		w.line(4, "- url: "+quote(c))
	}
	if len(l.Platforms) == 0 {
		w.line(4, "packages: {}")
	} else {
		w.line(4, "packages:")
	}
	for _, p := range l.Platforms {
		w.list(6, quote(p.Platform), len(p.Packages))
		for _, r := range p.Packages {
			w.line(6, "- conda: "+quote(r.URL))
		}
	}
	all := l.artifacts()
	w.list(0, "packages", len(all))
	for _, r := range all {
		w.pixiPackage(r)
	}
	return written(w.String(), l)
}

// pixiPackage writes the description of an artifact: what follows from its address
// is left out.
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

func (w *yamlWriter) texts(key string, list []string) {
	if len(list) == 0 {
		return
	}
	w.list(2, key, len(list))
	for _, s := range list {
		w.line(2, "- "+quote(s))
	}
}

// artifacts are those of all platforms, each once, by address.
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

// size is how many packages there are, on all platforms.
func (l Lock) size() int {
	n := 0
	for _, p := range l.Platforms {
		n += len(p.Packages)
	}
	return n
}
