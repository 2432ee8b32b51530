package lockfile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// mainCategory is the group of packages that every environment of a conda-lock.yml
// includes.
const mainCategory = "main"

// readCondaLock reads a conda-lock.yml, version 1 (CEP 37): the packages of the category
// main, and those of one more category.
func readCondaLock(top map[string]ast.Node, category string) (Lock, error) {
	if v := markup.Scalar(top["version"]); v != "" && v != "1" {
		return Lock{}, fault.Invalid.Newf("the lock is a conda-lock.yml of version %s; only version 1 can be read", fault.Quote(v))
	}
	meta := markup.Members(top["metadata"])
	var l Lock
	for _, c := range markup.Items(meta["channels"]) {
		l.Channels = append(l.Channels, markup.Scalar(markup.Members(c)["url"]))
	}
	for _, p := range markup.Scalars(meta["platforms"]) {
		if !spec.IsPlatform(p) {
			return Lock{}, fault.Invalid.Newf("metadata.platforms: %q is no platform, such as linux-64", fault.Quote(p))
		}
		l.platform(p)
	}
	known := category == "" || category == mainCategory
	for i, n := range markup.Items(top["package"]) {
		p := markup.Members(n)
		in := cmp.Or(markup.Scalar(p["category"]), mainCategory)
		known = known || in == category
		if in != mainCategory && in != category {
			continue
		}
		if err := l.addCondaLock(p); err != nil {
			return Lock{}, fault.In(fmt.Sprintf("package[%d]", i), err)
		}
	}
	if !known {
		return Lock{}, fault.NotFound.Newf("the lock has no packages of the category %q", fault.Quote(category))
	}
	return l, l.agree()
}

// addCondaLock adds an item of the list "package".
func (l *Lock) addCondaLock(p map[string]ast.Node) error {
	platform := markup.Scalar(p["platform"])
	if !slices.ContainsFunc(l.Platforms, func(p PlatformLock) bool { return p.Platform == platform }) {
		return fault.Invalid.Newf("platform %q is not one of metadata.platforms", fault.Quote(platform))
	}
	to := l.platform(platform)
	hash := markup.Members(p["hash"])
	switch manager := markup.Scalar(p["manager"]); manager {
	case "conda":
		r, err := described(markup.Scalar(p["url"]), p)
		if err != nil {
			return err
		}
		if err := cmp.Or(r.SetHash("md5", markup.Scalar(hash["md5"])), r.SetHash("sha256", markup.Scalar(hash["sha256"]))); err != nil {
			return err
		}
		r.Depends = dependencyList(p["dependencies"])
		to.Packages = append(to.Packages, r)
		return nil
	case "pip":
		py, err := pypi(markup.Scalar(p["url"]), markup.Scalar(hash["sha256"]), p)
		py.Requires = pipDependencies(p["dependencies"])
		to.PyPI = append(to.PyPI, py)
		return err
	default:
		return fault.Invalid.Newf("manager must be conda or pip, not %q", fault.Quote(manager))
	}
}

// dependencyList returns the specifications for a mapping of names to constraints.
func dependencyList(n ast.Node) []string {
	of := markup.Members(n)
	var all []string
	for _, name := range markup.Keys(n) {
		all = append(all, strings.TrimSpace(name+" "+markup.Scalar(of[name])))
	}
	return all
}

// pipDependencies returns the requirements (PEP 508) of a package of pip. conda-lock writes "*"
// for any version and a bare version for exactly that one. Alternatives of versions, which
// PEP 508 does not have, are omitted.
func pipDependencies(n ast.Node) []string {
	of := markup.Members(n)
	var all []string
	for _, name := range markup.Keys(n) {
		version := strings.TrimSpace(markup.Scalar(of[name]))
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
	w := markup.YAMLWriter{}
	w.Line(0, "version: 1")
	w.Line(0, "metadata:")
	w.Line(2, "content_hash:")
	for _, p := range l.Platforms {
		w.Line(4, markup.Quote(p.Platform)+": "+markup.Quote(p.contentHash()))
	}
	w.List(2, "channels", len(l.Channels))
	for _, c := range l.Channels {
		w.Line(2, "- url: "+markup.Quote(c))
		w.Line(4, "used_env_vars: []")
	}
	w.List(2, "platforms", len(l.Platforms))
	for _, p := range l.Platforms {
		w.Line(2, "- "+markup.Quote(p.Platform))
	}
	w.Line(2, "sources: []")
	w.List(0, "package", l.size())
	for _, p := range l.Platforms {
		for _, r := range p.Sorted() {
			writeCondaLockPackage(&w, p.Platform, r)
		}
		for _, py := range p.PyPI {
			writeCondaLockWheel(&w, p.Platform, py)
		}
	}
	return written(w.String(), l)
}

func writeCondaLockPackage(w *markup.YAMLWriter, platform string, r spec.Record) {
	w.Line(0, "- name: "+markup.Quote(r.Name))
	w.Line(2, "version: "+markup.Quote(r.Version))
	w.Line(2, "manager: conda")
	w.Line(2, "platform: "+markup.Quote(platform))
	names, constraints := constraintsOf(r.Depends)
	if len(names) == 0 {
		w.Line(2, "dependencies: {}")
	} else {
		w.Line(2, "dependencies:")
	}
	for _, name := range names {
		w.Line(4, markup.Quote(name)+": "+markup.Quote(constraints[name]))
	}
	w.Line(2, "url: "+markup.Quote(r.URL))
	if r.MD5 == "" && r.SHA256 == "" {
		w.Line(2, "hash: {}")
	} else {
		w.Line(2, "hash:")
	}
	w.Member(4, "md5", r.MD5)
	w.Member(4, "sha256", r.SHA256)
	w.Line(2, "build: "+markup.Quote(r.Build))
	w.Line(2, "category: "+mainCategory)
	w.Line(2, "optional: false")
}

// writeCondaLockWheel writes a package of pip. The format has no place for conditions, so that
// requirements of extras are omitted.
func writeCondaLockWheel(w *markup.YAMLWriter, platform string, py spec.PyPIPackage) {
	w.Line(0, "- name: "+markup.Quote(py.Name))
	w.Line(2, "version: "+markup.Quote(py.Version))
	w.Line(2, "manager: pip")
	w.Line(2, "platform: "+markup.Quote(platform))
	needs := map[string]string{}
	for _, text := range py.Requires {
		if name := spec.RequiredName(text); name != "" {
			needs[name] = cmp.Or(spec.RequiredVersion(text), "*")
		}
	}
	if len(needs) == 0 {
		w.Line(2, "dependencies: {}")
	} else {
		w.Line(2, "dependencies:")
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		w.Line(4, markup.Quote(name)+": "+markup.Quote(needs[name]))
	}
	w.Line(2, "url: "+markup.Quote(py.URL))
	if py.SHA256 == "" {
		w.Line(2, "hash: {}")
	} else {
		w.Line(2, "hash:")
	}
	w.Member(4, "sha256", py.SHA256)
	w.Line(2, "category: "+mainCategory)
	w.Line(2, "optional: false")
}

// constraintsOf splits specifications into ordered names and their constraints. Two
// constraints of one name are joined if both have a suitable form; otherwise the second is
// dropped. Installing a lock does not use the constraints.
func constraintsOf(depends []string) (names []string, constraints map[string]string) {
	constraints = map[string]string{}
	for _, d := range depends {
		name := spec.DependencyName(d)
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
