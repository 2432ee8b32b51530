package lockfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// A pixiFile is a pixi.lock that is being read.
type pixiFile struct {
	// packages maps addresses to descriptions of artifacts; the first description is used.
	packages map[string]map[string]ast.Node
	// subdirs maps the custom names of platforms, which version 7 introduced, to their
	// subdirs.
	subdirs map[string]string
}

// readPixi reads one environment of a pixi.lock.
func readPixi(top map[string]ast.Node, environment string) (Lock, error) {
	version, err := strconv.Atoi(markup.Scalar(top["version"]))
	if err != nil || version < 4 || version > 7 {
		return Lock{}, fault.Invalid.Newf("the lock is a pixi.lock of version %q; versions 4 to 7 can be read", fault.Quote(markup.Scalar(top["version"])))
	}
	f := pixiFile{packages: map[string]map[string]ast.Node{}, subdirs: map[string]string{}}
	for _, n := range markup.Items(top["platforms"]) {
		p := markup.Members(n)
		f.subdirs[markup.Scalar(p["name"])] = cmp.Or(markup.Scalar(p["subdir"]), markup.Scalar(p["name"]))
	}
	for _, n := range markup.Items(top["packages"]) {
		p := markup.Members(n)
		address := cmp.Or(markup.Scalar(p["conda"]), markup.Scalar(p["pypi"]), markup.Scalar(p["url"]))
		if f.packages[address] == nil {
			f.packages[address] = p
		}
	}
	environment = cmp.Or(environment, envfile.DefaultName)
	n, ok := markup.Members(top["environments"])[environment]
	if !ok {
		names := markup.Keys(top["environments"])
		return Lock{}, fault.NotFound.Newf("the lock has no environment %q; it has %s", fault.Quote(environment), fault.Quote(strings.Join(names, ", ")))
	}
	l, err := f.environment(n)
	return l, fault.In("environment "+environment, err)
}

// environment reads the channels and packages of an environment.
func (f pixiFile) environment(n ast.Node) (Lock, error) {
	e := markup.Members(n)
	var l Lock
	for _, c := range markup.Items(e["channels"]) {
		l.Channels = append(l.Channels, markup.Scalar(markup.Members(c)["url"]))
	}
	packages := markup.Members(e["packages"])
	for _, name := range markup.Keys(e["packages"]) {
		subdir := cmp.Or(f.subdirs[name], name)
		if !spec.IsPlatform(subdir) {
			return l, fault.Invalid.Newf("%q is no platform, such as linux-64", fault.Quote(subdir))
		}
		if slices.Contains(l.platforms(), subdir) {
			return l, fault.Invalid.Newf("two of its platforms are %s, of which only one can be used", subdir)
		}
		to := l.platform(subdir)
		for i, item := range markup.Items(packages[name]) {
			if err := f.add(to, markup.Members(item)); err != nil {
				return l, fault.In(fmt.Sprintf("%s[%d]", fault.Quote(name), i), err)
			}
		}
	}
	return l, l.agree()
}

// add adds an artifact that an environment refers to.
func (f pixiFile) add(to *PlatformLock, reference map[string]ast.Node) error {
	if source := markup.Scalar(reference["conda_source"]); source != "" {
		return fault.Invalid.Newf("%q is a package that is built from source, which is not supported; publish it in a channel", fault.Quote(source))
	}
	if address := markup.Scalar(reference["pypi"]); address != "" {
		p := f.packages[address]
		py, err := pypi(address, markup.Scalar(p["sha256"]), p)
		py.Requires, py.RequiresPython = markup.Scalars(p["requires_dist"]), markup.Scalar(p["requires_python"])
		to.PyPI = append(to.PyPI, py)
		return err
	}
	address := markup.Scalar(reference["conda"])
	if address == "" {
		return fault.Invalid.Newf("the item is neither a package of conda nor of pypi")
	}
	r, err := pixiRecord(address, f.packages[address])
	to.Packages = append(to.Packages, r)
	return err
}

// pixiRecord reads the description of an artifact.
func pixiRecord(address string, p map[string]ast.Node) (spec.Record, error) {
	r, err := described(address, p)
	if err != nil {
		return r, err
	}
	if p == nil {
		return r, fault.Invalid.Newf("%s is listed, but not described in packages", r.FileName)
	}
	if err := cmp.Or(r.SetHash("md5", markup.Scalar(p["md5"])), r.SetHash("sha256", markup.Scalar(p["sha256"]))); err != nil {
		return r, err
	}
	r.Depends, r.Constrains = markup.Scalars(p["depends"]), markup.Scalars(p["constrains"])
	r.License, r.LicenseFamily = markup.Scalar(p["license"]), markup.Scalar(p["license_family"])
	r.PythonSitePackagesPath = markup.Scalar(p["python_site_packages_path"])
	r.TrackFeatures = markup.Scalars(p["track_features"])
	if s := markup.Scalar(p["track_features"]); s != "" { // before version 6
		r.TrackFeatures = strings.Fields(s)
	}
	if kind := markup.Scalar(p["noarch"]); kind == "python" || kind == "generic" {
		r.NoArch = kind
	}
	return r, cmp.Or(
		wholeNumber(p, "size", &r.Size), wholeNumber(p, "timestamp", &r.Timestamp), wholeNumber(p, "build_number", &r.BuildNumber),
	)
}

// wholeNumber reads an optional non-negative integer.
func wholeNumber[N int64 | uint64](p map[string]ast.Node, key string, to *N) error {
	s := markup.Scalar(p[key])
	if s == "" {
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return fault.Invalid.Newf("%s: %q is not a number", key, fault.Quote(s))
	}
	*to = N(n)
	return nil
}

// described parses an address and checks that name, version and build match the description
// if it has them.
func described(address string, p map[string]ast.Node) (spec.Record, error) {
	r, err := spec.ParseArtifact(address)
	if err != nil {
		return r, err
	}
	for key, has := range map[string]string{"name": r.Name, "version": r.Version, "build": r.Build} {
		if says := markup.Scalar(p[key]); says != "" && says != has {
			return r, fault.Invalid.Newf("%s of %s is %q, but %q in the name of its file", key, r.FileName, fault.Quote(says), has)
		}
	}
	return r, nil
}

// pypi reads a package that pip would add.
func pypi(address, sha256 string, p map[string]ast.Node) (spec.PyPIPackage, error) {
	py := spec.PyPIPackage{Name: markup.Scalar(p["name"]), Version: markup.Scalar(p["version"]), URL: address, SHA256: strings.ToLower(sha256)}
	switch name := fault.Quote(cmp.Or(py.Name, address)); {
	case markup.Scalar(p["editable"]) == "true":
		return py, fault.Invalid.Newf("%q is a package of pypi that is installed in editable mode, which an image cannot have; publish its wheel in an index", name)
	case strings.HasPrefix(address, "git+") || strings.HasPrefix(address, "hg+") || strings.HasPrefix(address, "svn+") || strings.HasPrefix(address, "bzr+"):
		return py, fault.Invalid.Newf("%q is a package of pypi from a version control system (%s), which is not supported; publish its wheel in an index", name, fault.Quote(address))
	case strings.HasPrefix(address, "direct+"):
		return py, fault.Invalid.Newf("%q is a package of pypi from an address outside an index (%s), which is not supported; publish its wheel in an index", name, fault.Quote(address))
	case !spec.IsWebURL(address):
		return py, fault.Invalid.Newf("%q is a package of pypi from a path, which is not supported; publish it in an index", fault.Quote(address))
	case py.SHA256 != "" && (len(py.SHA256) != 64 || !spec.IsHex(py.SHA256)):
		return py, fault.Invalid.Newf("%q is a package of pypi with a malformed sha256", name)
	}
	return py, nil
}
