// Package vulns finds known vulnerabilities of packages in OSV data (https://ossf.github.io/osv-schema/).
//
// Import converts archives of OSV records, one for each ecosystem, to a Database, an immutable file. Find
// compares the components of a bill of materials with it. A Source keeps the newest database of a folder or a
// web server. It also reads the OpenVEX documents of the server.
//
// Packages of distributions and languages are compared by the rules of their ecosystem. Conda packages are
// compared with the records about the same software in other ecosystems; see conda.tsv and MatchUpstream.
//
// The data is trusted to be true but not to be well-formed: everything is bounded by the package limits.
package vulns

import (
	"cmp"
	"slices"
	"strings"
)

// A Finding is a known vulnerability of a component.
type Finding struct {
	// ID is the CVE id of the vulnerability if one is known, else the id of the record, e.g. "GHSA-…".
	ID string
	// Aliases are the other ids of the vulnerability and its records, in order.
	Aliases  []string
	Severity Severity
	// Title is one line in valid UTF-8; "" if unknown.
	Title string
	// Package, PURL, Version, Layer and Path are those of the component.
	Package, PURL, Version string
	// Fixed is the first version without the vulnerability according to the record; "" if none is known. If
	// Match is MatchUpstream, it is the version of the ecosystem in Source, such as "3.0.11-1~deb12u2".
	Fixed string
	// URL is the address of the record.
	URL         string
	Layer, Path string
	// Source is the ecosystem of the record, e.g. "Debian:12".
	Source string
	// Match states how the component was compared with the record.
	Match Match
}

// A Match is a kind of comparison.
type Match string

const (
	// MatchExact is a comparison by name and version in the ecosystem of the package.
	MatchExact Match = ""
	// MatchUpstream is a comparison of a Conda package with a record about the same software in another
	// ecosystem, by the upstream versions. It can be wrong if either has backported a fix.
	MatchUpstream Match = "upstream"
)

// A Severity is how severe a vulnerability is.
type Severity string

// The severities.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
	Unknown  Severity = "unknown"
)

// Severities returns all severities, the most severe first.
func Severities() []Severity { return []Severity{Critical, High, Medium, Low, Unknown} }

// Compare returns a negative number if s is more severe than other.
func (s Severity) Compare(other Severity) int { return s.rank() - other.rank() }

func (s Severity) rank() int {
	if i := slices.Index(Severities(), s); i >= 0 {
		return i
	}
	return len(Severities()) - 1
}

// worst returns the more severe one. "" is less than all others.
func worst(a, b Severity) Severity {
	if b == "" || a != "" && a.Compare(b) <= 0 {
		return a
	}
	return b
}

// sortFindings orders findings: the most severe first, then by package and id.
func sortFindings(list []Finding) {
	slices.SortFunc(list, func(a, b Finding) int {
		return cmp.Or(a.Severity.Compare(b.Severity), strings.Compare(a.Package, b.Package), strings.Compare(a.ID, b.ID), strings.Compare(a.PURL, b.PURL),
			strings.Compare(a.Path, b.Path), strings.Compare(a.Layer, b.Layer))
	})
}
