package conda

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// TypeCRAN is the type of packages with R's package names.
const TypeCRAN = "CRAN"

// rEntry matches an R package: its repository if it is not CRAN, its name and its version.
var rEntry = regexp.MustCompile(`^(?:(bioc|bioconductor|cran)::)?([A-Za-z][A-Za-z0-9.]*)(?:\s*(?:@|==?)\s*([0-9]+(?:[.-][0-9]+)*))?$`)

// rBase returns the packages that are part of R.
func rBase() []string {
	return []string{"R", "base", "compiler", "datasets", "grDevices", "graphics", "grid", "methods", "parallel", "splines", "stats", "stats4", "tcltk", "tools", "utils"}
}

// An rPackage is a requested R package.
type rPackage struct {
	// spec is the specification of its Conda package.
	spec string
	// name and version are those of the CRAN package. An empty version means any version.
	// name is empty for R itself and for packages of Bioconductor, which are not on CRAN.
	name, version string
}

func entriesOf(packages []rPackage) []string {
	var out []string
	for _, p := range packages {
		out = append(out, p.spec)
	}
	return out
}

// fromR converts R packages to Conda packages: those of CRAN are named r-…, those of
// Bioconductor bioconductor-…, in lower case. renv is the decoded lock file of renv; "" if
// the packages are listed as entries. It returns fault.Invalid with the field for names
// that cannot be converted.
func fromR(p *containerv1.Packages, renv string) ([]rPackage, error) {
	if renv != "" {
		return fromRenv(renv)
	}
	var out []rPackage
	for i, entry := range p.GetEntries() {
		m := rEntry.FindStringSubmatch(strings.TrimSpace(entry))
		if m == nil {
			return nil, fault.Invalid.Newf("packages.entries[%d] must be an R package, such as dplyr, dplyr=1.1.4 or bioc::DESeq2, not %q", i, fault.Quote(entry))
		}
		out = append(out, packageOfR(strings.HasPrefix(m[1], "bioc"), m[2], m[3]))
	}
	return withR(out), nil
}

// withR adds R itself, because a list of packages need not depend on it.
func withR(packages []rPackage) []rPackage {
	if len(packages) == 0 || slices.ContainsFunc(packages, func(p rPackage) bool { return p.spec == "r-base" || strings.HasPrefix(p.spec, "r-base=") }) {
		return packages
	}
	return append(packages, rPackage{spec: "r-base"})
}

// packageOfR returns an R package with the specification of its Conda package.
func packageOfR(isBioconductor bool, name, version string) rPackage {
	p := rPackage{spec: specOfR(isBioconductor, name, version)}
	if !isBioconductor && !slices.Contains(rBase(), name) {
		p.name, p.version = name, version
	}
	return p
}

// specOfR returns the specification of the Conda package of an R package. A CRAN version
// such as 1.1-3 is 1.1_3 in Conda.
func specOfR(isBioconductor bool, name, version string) string {
	prefix := "r-"
	switch {
	case slices.Contains(rBase(), name):
		prefix, name = "r-", "base"
	case isBioconductor:
		prefix = "bioconductor-"
	}
	text := prefix + strings.ToLower(name)
	if version != "" {
		text += "=" + strings.ReplaceAll(version, "-", "_")
	}
	return text
}

// rVersion matches the minor version in a version of R.
var rVersion = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}`)

// fromRenv returns the packages of a lock file of renv, by name.
func fromRenv(text string) ([]rPackage, error) {
	var lock struct {
		R struct {
			Version string
		}
		Packages map[string]struct{ Package, Version, Source, Repository string }
	}
	const field = "packages.environment"
	if err := json.Unmarshal([]byte(text), &lock); err != nil {
		return nil, fault.Invalid.New(field+" must be an renv.lock: it is not JSON of that form", err)
	}
	if len(lock.Packages) == 0 {
		return nil, fault.Invalid.Newf("%s must be an renv.lock with packages", field)
	}
	r := specOfR(false, "R", "")
	if v := lock.R.Version; v != "" { // Conda builds packages for each minor version
		minor := rVersion.FindString(v)
		if minor == "" {
			return nil, fault.Invalid.Newf("%s: R: %q is not a version", field, fault.Quote(v))
		}
		r += "=" + minor
	}
	out := []rPackage{{spec: r}}
	for _, name := range slices.Sorted(maps.Keys(lock.Packages)) {
		p := lock.Packages[name]
		m := rEntry.FindStringSubmatch(name + "=" + p.Version)
		switch {
		case m == nil || m[1] != "" || p.Package != "" && p.Package != name:
			return nil, fault.Invalid.Newf("%s: Packages: %q is not a package with a version", field, fault.Quote(name))
		case p.Source != "Repository" && p.Source != "Bioconductor":
			return nil, fault.Invalid.Newf("%s: Packages: %s comes from %q; only packages of CRAN and Bioconductor have Conda packages", field, name, fault.Quote(p.Source))
		case slices.Contains(rBase(), name):
			continue
		}
		isBioconductor := p.Source == "Bioconductor" || strings.HasPrefix(strings.ToLower(p.Repository), "bioc")
		out = append(out, packageOfR(isBioconductor, name, m[3]))
	}
	for _, p := range out {
		if _, err := spec.ParseMatchSpec(p.spec); err != nil {
			return nil, fault.In(field, err)
		}
	}
	return out, nil
}
