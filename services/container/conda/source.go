package conda

import (
	"slices"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// FallbackSource is the value of cranFallback with which R packages that have no Conda package
// are built from source.
const FallbackSource = "source"

// A fallback describes R packages that may be built from source. The zero value allows none.
type fallback struct {
	// mirror is the base URL of the CRAN mirror.
	mirror string
	// candidates holds the requested CRAN packages by the name of their Conda package.
	candidates map[string]rPackage
	// source lists the candidates that are built from source.
	source []rPackage
}

// setFallback allows packages to be built from source if the request sets cranFallback. It
// returns fault.Unsupported if this server has no CRAN mirror.
func (r *Recipe) setFallback(p *containerv1.Packages, packages []rPackage, usual Defaults) error {
	if p.GetCranFallback() != FallbackSource {
		return nil
	}
	if usual.CRANMirror == "" {
		return fault.Unsupported.Newf("packages.cranFallback: this server does not build R packages from source, because no CRAN mirror is configured (cran_mirror); omit cranFallback, and request only packages that have a Conda package")
	}
	r.fallback = fallback{mirror: usual.CRANMirror, candidates: map[string]rPackage{}}
	for _, p := range packages {
		if p.name == "" {
			continue
		}
		name := nameOf(p.spec)
		if _, ok := r.fallback.candidates[name]; ok {
			return fault.Invalid.Newf("packages.cranFallback: %s is requested twice; request each R package once", p.name)
		}
		r.fallback.candidates[name] = p
	}
	return nil
}

// HasFallback reports whether R packages without a Conda package are built from source.
func (r Recipe) HasFallback() bool { return r.fallback.mirror != "" }

// FromSource returns the recipe with more R packages built from source, to resolve a conflict.
// absent and involved list names of Conda packages: absent those for which the channels have
// no matching record, and involved those whose versions conflict. FromSource takes all
// packages in absent or, if it can take none of these, one package in involved. ok is false if
// none of the packages can be built from source. FromSource returns fault.Invalid if the
// number of packages to build exceeds limits.CranSources.
func (r Recipe) FromSource(absent, involved []string) (out Recipe, ok bool, err error) {
	var take []string
	for _, name := range absent {
		if _, ok := r.fallback.candidates[name]; ok && r.requires(name) {
			take = append(take, name)
		}
	}
	for _, name := range involved {
		if p, ok := r.fallback.candidates[name]; len(take) == 0 && ok && p.version != "" && r.requires(name) {
			take = append(take, name)
		}
	}
	if len(take) == 0 {
		return r, false, nil
	}
	r.fallback.source = slices.Clone(r.fallback.source)
	for _, name := range take {
		r.fallback.source = append(r.fallback.source, r.fallback.candidates[name])
	}
	if n := len(r.fallback.source); n > limits.CranSources {
		return r, false, fault.Invalid.Newf("packages.cranFallback: more than %d R packages have no matching Conda package; request fewer of them, or other versions", limits.CranSources)
	}
	var rest []envfile.Requirement
	for _, q := range r.Environment.Requirements {
		if !slices.Contains(take, nameOf(q.Text)) {
			rest = append(rest, q)
		}
	}
	r.Environment = envfile.New(r.Environment.Channels, rest)
	return r, true, nil
}

// requires reports whether the environment requires a Conda package by name.
func (r Recipe) requires(name string) bool {
	return slices.ContainsFunc(r.Environment.Requirements, func(q envfile.Requirement) bool { return !q.Pip && nameOf(q.Text) == name })
}

// tools returns the Conda packages that are needed to build from source, or nil if no package
// is built.
func (f fallback) tools() []string {
	if len(f.source) == 0 {
		return nil
	}
	return []string{"c-compiler", "cxx-compiler", "fortran-compiler", "make", "pkg-config"}
}

// names returns the names of the packages that are built from source, for messages.
func (f fallback) names() string {
	var out []string
	for _, p := range f.source {
		out = append(out, p.name)
	}
	slices.Sort(out)
	if n := len(out); n > 5 {
		return strings.Join(out[:5], ", ") + " and others"
	}
	return strings.Join(out, ", ")
}

// file returns the input of the build step: the URL of the mirror, then one package per line,
// sorted by name. It returns "" if no package is built.
func (f fallback) file() string {
	if len(f.source) == 0 {
		return ""
	}
	lines := make([]string, 0, len(f.source))
	for _, p := range f.source {
		lines = append(lines, p.name+"\t"+p.version+"\n")
	}
	slices.Sort(lines)
	return f.mirror + "\n" + strings.Join(lines, "")
}
