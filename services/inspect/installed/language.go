package installed

import (
	"path"
	"strings"

	"slipway.dev/services/internal/limits"
)

// python returns the manager of Python packages: pip and all others, by the metadata of installed
// distributions.
func python() Manager {
	return Manager{
		Kind: Python,
		isRecord: func(name string) bool {
			dir, base := path.Split(name)
			dir = path.Clean(dir)
			if base == "METADATA" && strings.HasSuffix(dir, ".dist-info") || base == "PKG-INFO" && strings.HasSuffix(dir, ".egg-info") {
				dir = path.Dir(dir)
			} else if !strings.HasSuffix(base, ".egg-info") {
				return false
			}
			parent := path.Base(dir)
			return parent == "site-packages" || parent == "dist-packages"
		},
		parse: parsePython,
	}
}

func parsePython(raw []byte, yield func(Record) bool) {
	for s := range stanzas(raw, field{name: "name"}, field{name: "version"}, field{name: "license"}, field{name: "license-expression"}, field{name: "classifier", prefix: classified}) {
		yield(Record{Name: oneLine(s["name"]), Version: oneLine(s["version"]), License: pythonLicense(s)})
		return // the description follows
	}
	yield(Record{})
}

// classified is the prefix of classifiers of licences.
const classified = "License :: "

// installer returns the manager of the files that name the installer of a Python package.
func installer() Manager {
	return Manager{
		Kind: Installer,
		isRecord: func(name string) bool {
			dir, base := path.Split(name)
			return base == "INSTALLER" && strings.HasSuffix(path.Clean(dir), ".dist-info")
		},
		parse: func(raw []byte, yield func(Record) bool) {
			if strings.TrimSpace(string(raw[:min(len(raw), 16)])) == "conda" {
				yield(Record{Name: "conda", Version: "unknown"})
			}
		},
		optional: true,
	}
}

// maxLicenseName is the maximum length in bytes of a name of a licence. Many packages state a whole licence
// instead.
const maxLicenseName = 100

// pythonLicense returns the licence of a distribution: its expression (PEP 639), otherwise the text, if it is
// a name, otherwise the classifiers.
func pythonLicense(s map[string]string) string {
	if e := oneLine(s["license-expression"]); e != "" && len(e) <= limits.License {
		return e
	}
	if l := s["license"]; l != "" && l != "UNKNOWN" && len(l) <= maxLicenseName && !strings.Contains(l, "\n") {
		return l
	}
	var names []string
	for c := range strings.SplitSeq(s["classifier"], "\n") {
		if rest, ok := strings.CutPrefix(c, classified); ok {
			parts := strings.Split(rest, " :: ")
			if name := parts[len(parts)-1]; name != "OSI Approved" {
				names = append(names, name)
			}
		}
	}
	out := strings.Join(names, ", ")
	if len(out) > limits.License {
		return ""
	}
	return out
}

// r returns the manager of R packages.
func r() Manager {
	return Manager{
		Kind: R,
		isRecord: func(name string) bool {
			dir, base := path.Split(name)
			parent := path.Base(path.Dir(path.Clean(dir)))
			return base == "DESCRIPTION" && (parent == "library" || parent == "site-library")
		},
		parse: parseR,
	}
}

// parseR yields an installed package. Packages that are part of R itself are left out, and so are folders of
// other software: only R writes the field Built.
func parseR(raw []byte, yield func(Record) bool) {
	for s := range stanzas(raw, field{name: "package"}, field{name: "version"}, field{name: "license"}, field{name: "priority"}, field{name: "built"},
		field{name: "repository"}, field{name: "biocviews"}, field{name: "git_url"}, field{name: "remotetype"}) {
		if _, built := s["built"]; built && s["priority"] != "base" {
			r := Record{Name: oneLine(s["package"]), Version: oneLine(s["version"]), License: oneLine(s["license"]), Channel: repositoryOfR(s)}
			if len(r.License) > limits.License {
				r.License = ""
			}
			yield(r)
		}
		return
	}
}

// repositoryOfR returns the type of package URL for the repository that an R package is from.
func repositoryOfR(s map[string]string) string {
	_, views := s["biocviews"]
	switch {
	case s["repository"] == "CRAN":
		return "cran"
	case views || strings.Contains(s["git_url"], "bioconductor.org"):
		return "bioconductor"
	case s["remotetype"] != "" && s["remotetype"] != "standard":
		return "generic"
	}
	return "cran"
}
