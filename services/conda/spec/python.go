package spec

import (
	"path"
	"regexp"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Python is the interpreter of an environment; the zero value for an environment without one.
type Python struct {
	// Minor is its version, e.g. "3.13".
	Minor string
	// SitePackages is the folder of its packages below the prefix, e.g.
	// "lib/python3.13/site-packages".
	SitePackages string
	// FreeThreaded is set for a build without the global interpreter lock.
	FreeThreaded bool
}

var (
	pythonVersion = regexp.MustCompile(`^([0-9]{1,4}\.[0-9]{1,4})(\.|$)`)
	freeThreaded  = regexp.MustCompile(`_cp[0-9]+t$`)
)

// PythonOf returns the interpreter of an environment. It returns fault.Invalid if its
// record is malformed.
func PythonOf(records []Record) (Python, error) {
	for _, r := range records {
		if r.Name == "python" && !r.IsWheel() {
			return r.python()
		}
	}
	return Python{}, nil
}

// python returns the interpreter that a record of the package python installs. The record
// may set the folder of packages (CEP 17).
func (r Record) python() (Python, error) {
	m := pythonVersion.FindStringSubmatch(r.Version)
	if m == nil {
		return Python{}, fault.Invalid.Newf("%q is no version of Python", fault.Quote(r.Version))
	}
	in, isFree := r.PythonSitePackagesPath, freeThreaded.MatchString(r.Build)
	switch {
	case in == "" && isFree:
		in = "lib/python" + m[1] + "t/site-packages"
	case in == "":
		in = "lib/python" + m[1] + "/site-packages"
	case len(in) > limits.ArtifactPath || path.IsAbs(in) || strings.ContainsRune(in, 0) || strings.Contains("/"+in+"/", "/../"):
		return Python{}, fault.Invalid.Newf("The packages of Python %s cannot be put into %q", m[1], fault.Quote(in))
	}
	return Python{Minor: m[1], SitePackages: path.Clean(in), FreeThreaded: isFree}, nil
}
