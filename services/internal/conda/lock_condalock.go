package conda

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"slipway.dev/services/internal/fault"
)

// mainCategory is the group of packages that every environment of a conda-lock.yml
// includes.
const mainCategory = "main"

// readCondaLock reads a conda-lock.yml, version 1 (CEP 37): the packages of the category
// main, and those of one more category.
func readCondaLock(top map[string]ast.Node, category string) (Lock, error) {
	if v := scalar(top["version"]); v != "" && v != "1" {
		return Lock{}, fault.Invalid.Newf("the lock is a conda-lock.yml of version %s; only version 1 can be read", clip(v))
	}
	meta := members(top["metadata"])
	var l Lock
	for _, c := range items(meta["channels"]) {
		l.Channels = append(l.Channels, scalar(members(c)["url"]))
	}
	for _, p := range scalars(meta["platforms"]) {
		if !isPlatform(p) {
			return Lock{}, fault.Invalid.Newf("metadata.platforms: %q is no platform, such as linux-64", clip(p))
		}
		l.platform(p)
	}
	known := category == "" || category == mainCategory
	for i, n := range items(top["package"]) {
		p := members(n)
		in := cmp.Or(scalar(p["category"]), mainCategory)
		known = known || in == category
		if in != mainCategory && in != category {
			continue
		}
		if err := l.addCondaLock(p); err != nil {
			return Lock{}, fault.In(fmt.Sprintf("package[%d]", i), err)
		}
	}
	if !known {
		return Lock{}, fault.NotFound.Newf("the lock has no packages of the category %q", clip(category))
	}
	return l, l.agree()
}

// addCondaLock adds an item of the list "package".
func (l *Lock) addCondaLock(p map[string]ast.Node) error {
	platform := scalar(p["platform"])
	if !slices.ContainsFunc(l.Platforms, func(p PlatformLock) bool { return p.Platform == platform }) {
		return fault.Invalid.Newf("platform %q is not one of metadata.platforms", clip(platform))
	}
	to := l.platform(platform)
	hash := members(p["hash"])
	switch manager := scalar(p["manager"]); manager {
	case "conda":
		r, err := described(scalar(p["url"]), p)
		if err != nil {
			return err
		}
		if err := cmp.Or(r.hashOf("md5", scalar(hash["md5"])), r.hashOf("sha256", scalar(hash["sha256"]))); err != nil {
			return err
		}
		r.Depends = dependencyList(p["dependencies"])
		to.Packages = append(to.Packages, r)
		return nil
	case "pip":
		py, err := pypi(scalar(p["url"]), scalar(hash["sha256"]), p)
		py.Requires = pipDependencies(p["dependencies"])
		to.PyPI = append(to.PyPI, py)
		return err
	default:
		return fault.Invalid.Newf("manager must be conda or pip, not %q", clip(manager))
	}
}

// dependencyList returns the specifications for a mapping of names to constraints.
func dependencyList(n ast.Node) []string {
	of := members(n)
	var all []string
	for _, name := range keys(n) {
		all = append(all, strings.TrimSpace(name+" "+scalar(of[name])))
	}
	return all
}

// pipDependencies returns the requirements (PEP 508) of a package of pip. conda-lock writes "*"
// for any version and a bare version for exactly that one. Alternatives of versions, which
// PEP 508 does not have, are omitted.
func pipDependencies(n ast.Node) []string {
	of := members(n)
	var all []string
	for _, name := range keys(n) {
		version := strings.TrimSpace(scalar(of[name]))
		switch {
		case version == "*" || strings.Contains(version, "||"):
			version = ""
		case version != "" && version[0] >= '0' && version[0] <= '9':
			version = "==" + version
		}
		all = append(all, name+version)
	}
	return all
}

// agree checks the packages of each platform.
func (l *Lock) agree() error {
	for i := range l.Platforms {
		if err := l.Platforms[i].agree(); err != nil {
			return err
		}
	}
	return nil
}

// CondaLock returns a conda-lock.yml, version 1 (CEP 37). It returns fault.Invalid if a
// platform has no name, or if a record cannot be written.
func (l Lock) CondaLock() (string, error) {
	if err := l.forPlatforms(); err != nil {
		return "", err
	}
	w := yamlWriter{}
	w.line(0, "version: 1")
	w.line(0, "metadata:")
	w.line(2, "content_hash:")
	for _, p := range l.Platforms {
		w.line(4, quote(p.Platform)+": "+quote(p.contentHash()))
	}
	w.list(2, "channels", len(l.Channels))
	for _, c := range l.Channels {
		w.line(2, "- url: "+quote(c))
		w.line(4, "used_env_vars: []")
	}
	w.list(2, "platforms", len(l.Platforms))
	for _, p := range l.Platforms {
		w.line(2, "- "+quote(p.Platform))
	}
	w.line(2, "sources: []")
	w.list(0, "package", l.size())
	for _, p := range l.Platforms {
		for _, r := range p.Sorted() {
			w.condaLockPackage(p.Platform, r)
		}
		for _, py := range p.PyPI {
			w.condaLockWheel(p.Platform, py)
		}
	}
	return written(w.String(), l)
}

func (w *yamlWriter) condaLockPackage(platform string, r Record) {
	w.line(0, "- name: "+quote(r.Name))
	w.line(2, "version: "+quote(r.Version))
	w.line(2, "manager: conda")
	w.line(2, "platform: "+quote(platform))
	names, constraints := constraintsOf(r.Depends)
	if len(names) == 0 {
		w.line(2, "dependencies: {}")
	} else {
		w.line(2, "dependencies:")
	}
	for _, name := range names {
		w.line(4, quote(name)+": "+quote(constraints[name]))
	}
	w.line(2, "url: "+quote(r.URL))
	if r.MD5 == "" && r.SHA256 == "" {
		w.line(2, "hash: {}")
	} else {
		w.line(2, "hash:")
	}
	w.member(4, "md5", r.MD5)
	w.member(4, "sha256", r.SHA256)
	w.line(2, "build: "+quote(r.Build))
	w.line(2, "category: "+mainCategory)
	w.line(2, "optional: false")
}

// condaLockWheel writes a package of pip. The format has no place for conditions, so that
// requirements of extras are omitted.
func (w *yamlWriter) condaLockWheel(platform string, py PyPIPackage) {
	w.line(0, "- name: "+quote(py.Name))
	w.line(2, "version: "+quote(py.Version))
	w.line(2, "manager: pip")
	w.line(2, "platform: "+quote(platform))
	needs := map[string]string{}
	for _, text := range py.Requires {
		if name := requiredName(text); name != "" {
			needs[name] = cmp.Or(requiredVersion(text), "*")
		}
	}
	if len(needs) == 0 {
		w.line(2, "dependencies: {}")
	} else {
		w.line(2, "dependencies:")
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		w.line(4, quote(name)+": "+quote(needs[name]))
	}
	w.line(2, "url: "+quote(py.URL))
	if py.SHA256 == "" {
		w.line(2, "hash: {}")
	} else {
		w.line(2, "hash:")
	}
	w.member(4, "sha256", py.SHA256)
	w.line(2, "category: "+mainCategory)
	w.line(2, "optional: false")
}

// constraintsOf splits specifications into ordered names and their constraints. Two
// constraints of one name are joined if both have a suitable form; otherwise the second is
// dropped. Installing a lock does not use the constraints.
func constraintsOf(depends []string) (names []string, constraints map[string]string) {
	constraints = map[string]string{}
	for _, d := range depends {
		name := dependencyName(d)
		more := strings.TrimSpace(d[len(name):])
		had, ok := constraints[name]
		switch {
		case !ok:
			names = append(names, name)
			constraints[name] = more
		case had == "":
			constraints[name] = more
		case more != "" && !strings.ContainsAny(had+more, " |["):
			constraints[name] = had + "," + more
		}
	}
	return names, constraints
}

// contentHash returns a hash of the artifacts of a platform that does not depend on their
// order.
func (p PlatformLock) contentHash() string {
	var lines []string
	for _, r := range p.Packages {
		lines = append(lines, r.URL+"#"+cmp.Or(r.SHA256, r.MD5))
	}
	for _, py := range p.PyPI {
		lines = append(lines, py.URL+"#"+py.SHA256)
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}
