package spec

import (
	"net/url"
	"path"
	"regexp"
	"strings"

	"slipway.dev/services/internal/fault"
)

// PyPI is the channel and the platform folder of the records of wheels, as `conda list`
// prints them. No channel has a folder of this name.
const PyPI = "pypi"

// wheelBuild is the build of the records of wheels, as `conda list` prints it.
const wheelBuild = "pypi_0"

// A PyPIPackage is a package of the Python Package Index in a lock.
type PyPIPackage struct {
	Name, Version string
	// URL is the address of its wheel or source distribution.
	URL string
	// SHA256 is the digest of that file in hex; "" if unknown.
	SHA256 string
	// Requires are its requirements (PEP 508), as written: "urllib3>=1.21.1,<3".
	Requires []string
	// RequiresPython is a version constraint such as ">=3.8"; "" if unknown.
	RequiresPython string
}

// IsWheel reports whether the record is that of a wheel and not of a Conda package. Its
// Depends are requirements of Python (PEP 508), and its Constrains has at most the required
// Python.
func (r Record) IsWheel() bool { return r.Subdir == PyPI }

// Split separates the Conda packages of an environment from its wheels.
func Split(records []Record) (packages []Record, wheels []PyPIPackage) {
	for _, r := range records {
		if !r.IsWheel() {
			packages = append(packages, r)
			continue
		}
		py := PyPIPackage{Name: r.Name, Version: r.Version, URL: r.URL, SHA256: r.SHA256, Requires: r.Depends}
		for _, c := range r.Constrains {
			py.RequiresPython = strings.TrimPrefix(c, "python ")
		}
		wheels = append(wheels, py)
	}
	return packages, wheels
}

// Wheel returns the record of the package's wheel. It returns fault.Invalid, with the name of
// the package, if the file is not a wheel, has no digest, or does not fit the environment's
// Python and platform ("linux-64"). glibc is the version of the C library, "" for none.
func (p PyPIPackage) Wheel(python Python, platform, glibc string) (Record, error) {
	bad := func(format string, args ...any) (Record, error) {
		return Record{}, fault.In(fault.Quote(p.Name)+" "+fault.Quote(p.Version), fault.Invalid.Newf(format, args...))
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return bad("its address is malformed")
	}
	file := path.Base(u.Path)
	name, err := ParseWheelName(file)
	switch {
	case !strings.HasSuffix(file, ".whl"):
		return bad("%s is not a wheel, and nothing is built from source: lock a version that has a wheel, or use the Conda package", fault.Quote(file))
	case err != nil:
		return bad("%s", err)
	case p.SHA256 == "":
		return bad("the lock has no sha256 of %s, so that another file could take its place: lock it again", fault.Quote(file))
	case NormalName(p.Name) != name.Name || !name.IsVersion(p.Version):
		return bad("the file %s is that of %s %s", fault.Quote(file), name.Name, name.Version)
	case python.Minor == "":
		return bad("it requires Python, which the lock does not have: add the Conda package python")
	}
	if err := name.fits(python, platform, glibc); err != nil {
		return bad("%s: %s", fault.Quote(file), err)
	}
	r := Record{
		Name: name.Name, Version: p.Version, Build: wheelBuild, Channel: PyPI, Subdir: PyPI, FileName: file, URL: p.URL, SHA256: p.SHA256, Depends: p.Requires,
	}
	if p.RequiresPython != "" {
		r.Constrains = []string{"python " + p.RequiresPython}
	}
	return r, nil
}

// A WheelName is the parsed file name of a wheel.
type WheelName struct {
	// Name is normalized (see NormalName), Version as in the file's name.
	Name, Version string
	// pythons, abis and platforms are its tags: all combinations of them.
	pythons, abis, platforms []string
}

// wheelName matches name-version(-build)?-python-abi-platform.whl.
var wheelName = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._]*[A-Za-z0-9])?)-([A-Za-z0-9._+!]+)(?:-[0-9][A-Za-z0-9_.]*)?-([A-Za-z0-9_.]+)-([A-Za-z0-9_.]+)-([A-Za-z0-9_.]+)\.whl$`)

// wheelNameLength limits the length of a wheel's file name, in bytes.
const wheelNameLength = 255

// ParseWheelName parses the file name of a wheel. It returns fault.Invalid for any other name.
func ParseWheelName(file string) (WheelName, error) {
	m := wheelName.FindStringSubmatch(file)
	if m == nil || len(file) > wheelNameLength {
		return WheelName{}, fault.Invalid.Newf("%s is not the name of a wheel: name-version-python-abi-platform.whl", fault.Quote(file))
	}
	return WheelName{NormalName(m[1]), m[2], strings.Split(m[3], "."), strings.Split(m[4], "."), strings.Split(m[5], ".")}, nil
}

// IsVersion reports whether the wheel has a version, whose spelling may differ: 2024.08.30 is
// 2024.8.30.
func (n WheelName) IsVersion(version string) bool {
	if strings.EqualFold(n.Version, version) {
		return true
	}
	a, err := ParseVersion(strings.ReplaceAll(n.Version, "_", "-"))
	if err != nil {
		return false
	}
	b, err := ParseVersion(strings.ReplaceAll(version, "_", "-"))
	return err == nil && a.Compare(b) == 0
}

var nameSeparators = regexp.MustCompile(`[-_.]+`)

// NormalName returns the normalized name of a package of PyPI (PEP 503): lower case, with
// dashes.
func NormalName(name string) string {
	return strings.ToLower(nameSeparators.ReplaceAllString(name, "-"))
}

// requirement matches a requirement (PEP 508): name, extras, version and marker.
var requirement = regexp.MustCompile(`^\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*([^;]*)(;.*)?$`)

// ofExtra matches a marker that only applies to an extra.
var ofExtra = regexp.MustCompile(`\bextra\b`)

// RequiredName returns the normalized name in a requirement, or "" if it is malformed or
// only applies to an extra.
func RequiredName(text string) string {
	m := requirement.FindStringSubmatch(text)
	if m == nil || ofExtra.MatchString(m[3]) {
		return ""
	}
	return NormalName(m[1])
}

// RequiredVersion returns the version constraint of a requirement; "" for any version.
func RequiredVersion(text string) string {
	m := requirement.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return strings.Trim(strings.TrimSpace(m[2]), "()")
}
