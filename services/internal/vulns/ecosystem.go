package vulns

import (
	"regexp"
	"strings"
)

// An ecosystem is a set of packages whose versions have one order.
type ecosystem struct {
	// name is that in OSV records, without the release.
	name string
	// compare compares two versions. It reports false if they cannot be compared.
	compare func(a, b string) (int, bool)
	// normal returns the form of names in which they are compared.
	normal func(name string) string
	// release returns the release of an ecosystem as it is stored, e.g. "22.04" of "22.04:LTS". It reports false
	// for a release whose packages are never found. It is nil for ecosystems without releases.
	release func(text string) (string, bool)
}

// ecosystems returns all ecosystems that are imported.
func ecosystems() []ecosystem {
	return []ecosystem{
		{name: debian, compare: compareDpkg, normal: same, release: anyRelease},
		{name: ubuntu, compare: compareDpkg, normal: same, release: ubuntuRelease},
		{name: alpine, compare: compareAPK, normal: same, release: anyRelease},
		{name: pypi, compare: comparePEP440, normal: pythonName},
		{name: cran, compare: compareR, normal: strings.ToLower},
		{name: bioconductor, compare: compareR, normal: strings.ToLower},
		{name: npm, compare: compareSemver, normal: same},
		{name: golang, compare: compareSemver, normal: strings.ToLower},
		{name: bitnami, compare: compareSemver, normal: same},
	}
}

// The names of ecosystems in OSV records.
const (
	debian, ubuntu, alpine      = "Debian", "Ubuntu", "Alpine"
	pypi, cran, bioconductor    = "PyPI", "CRAN", "Bioconductor"
	npm, golang, bitnami, conda = "npm", "Go", "Bitnami", "conda"
)

// Ecosystems returns the names of the ecosystems that are imported, as in OSV data.
func Ecosystems() []string {
	var out []string
	for _, e := range ecosystems() {
		out = append(out, e.name)
	}
	return out
}

// ecosystemOf returns an ecosystem; false for one that is not imported.
func ecosystemOf(name string) (ecosystem, bool) {
	for _, e := range ecosystems() {
		if e.name == name {
			return e, true
		}
	}
	return ecosystem{}, false
}

// key returns the stored form of an ecosystem of a record, e.g. "Ubuntu:22.04" of "Ubuntu:22.04:LTS".
func (e ecosystem) key(text string) (string, bool) {
	name, release, has := strings.Cut(text, ":")
	if name != e.name {
		return "", false
	}
	if !has {
		return name, true
	}
	if e.release == nil {
		return "", false
	}
	release, ok := e.release(release)
	return name + ":" + release, ok
}

func same(name string) string { return name }

func anyRelease(text string) (string, bool) { return text, true }

// ubuntuRelease returns the number of a release. Packages of Ubuntu Pro are those of the release, with fixes that
// others do not have: an image without Ubuntu Pro has a lower version. Other variants, such as that for FIPS, have
// other packages.
func ubuntuRelease(text string) (string, bool) {
	text = strings.TrimSuffix(text, ":LTS")
	text = strings.TrimPrefix(text, "Pro:")
	return text, !strings.Contains(text, ":") && text != ""
}

// separators are equal in names of Python packages (PEP 503).
var separators = regexp.MustCompile("[-_.]+")

func pythonName(name string) string {
	return separators.ReplaceAllString(strings.ToLower(name), "-")
}
