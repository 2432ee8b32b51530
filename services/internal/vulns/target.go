package vulns

import (
	"slices"
	"strings"

	"github.com/package-url/packageurl-go"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sbom"
)

// A target is a name and a version that records are compared with.
type target struct {
	ecosystem ecosystem
	// release is that of the ecosystem; "" for none.
	release string
	name    string
	version string
	match   Match
	// newest selects the newest release of each record, because the release is not known.
	newest bool
	// compare compares version with the bounds of ranges.
	compare func(a, b string) (int, bool)
	// upstream, if not nil, returns the upstream part of a version of the ecosystem, see upstreamOf.
	upstream func(version string) (part string, isFirst bool)
}

// targets returns what records a component is compared with, the best source of records first.
func targets(c *sbom.Component) []target {
	if len(c.PURL) > 4*limits.ScanName {
		return nil
	}
	p, err := packageurl.FromString(c.PURL)
	if err != nil {
		return nil
	}
	version := p.Version
	if version == "" || len(version) > limits.ScanVersion {
		return nil
	}
	switch p.Type {
	case packageurl.TypeDebian, packageurl.TypeApk:
		return distributed(&p)
	case packageurl.TypePyPi:
		list := inEcosystem(pypi, p.Name, version)
		list[0].compare = compareCandidate
		return list
	case packageurl.TypeCran:
		return inEcosystem(cran, p.Name, version)
	case "bioconductor":
		return inEcosystem(bioconductor, p.Name, version)
	case packageurl.TypeNPM:
		return inEcosystem(npm, withNamespace(&p), version)
	case packageurl.TypeGolang:
		return inEcosystem(golang, withNamespace(&p), version)
	case packageurl.TypeConda:
		return condaTargets(p.Name, version)
	}
	return nil
}

// isMeta reports whether a component has no software of its own, such as a meta package.
func isMeta(c *sbom.Component) bool {
	if len(c.PURL) > 4*limits.ScanName {
		return false
	}
	p, err := packageurl.FromString(c.PURL)
	return err == nil && p.Type == packageurl.TypeConda && isCondaMeta(p.Name)
}

// compareCandidate compares versions of Python packages as comparePEP440 does, but ignores the local part of the first
// one, such as +cu118, if the second has none.
func compareCandidate(version, bound string) (int, bool) {
	if !strings.Contains(bound, "+") {
		version, _, _ = strings.Cut(version, "+")
	}
	return comparePEP440(version, bound)
}

func withNamespace(p *packageurl.PackageURL) string {
	if p.Namespace == "" {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// inEcosystem returns a target in an ecosystem without releases.
func inEcosystem(name, pkg, version string) []target {
	of, _ := ecosystemOf(name)
	return []target{{ecosystem: of, name: of.normal(pkg), version: version, compare: of.compare}}
}

// distributed returns the target of a package of a distribution: its source package, since records are about these.
func distributed(p *packageurl.PackageURL) []target {
	name := map[string]string{"deb debian": debian, "deb ubuntu": ubuntu, "apk alpine": alpine}[p.Type+" "+p.Namespace]
	of, ok := ecosystemOf(name)
	if !ok {
		return nil
	}
	t := target{ecosystem: of, name: p.Name, version: p.Version, compare: of.compare}
	qualifiers := p.Qualifiers.Map()
	if source := qualifiers["upstream"]; source != "" {
		source, version, _ := strings.Cut(source, "@")
		t.name = source
		if version != "" && len(version) <= limits.ScanVersion {
			t.version = version
		}
	}
	t.release, t.newest = releaseOf(name, strings.TrimPrefix(qualifiers["distro"], p.Namespace+"-"))
	return []target{t}
}

// releaseOf returns the release of a distribution with a VERSION_ID of os-release, as records name it. newest is
// true if it is unknown, as for distributions without releases.
func releaseOf(distribution, id string) (release string, newest bool) {
	parts := strings.Split(id, ".")
	if !isNumber(parts[0]) {
		return "", true
	}
	switch {
	case distribution == debian:
		return parts[0], false
	case distribution == ubuntu:
		return id, false
	case len(parts) < 2 || !isNumber(parts[1]): // e.g. 3.23_alpha20260101 of Alpine's edge
		return "", true
	}
	return "v" + parts[0] + "." + parts[1], false
}

func (t *target) query() query {
	if t.newest {
		return query{t.ecosystem.name, t.name, true}
	}
	if t.release != "" {
		return query{t.ecosystem.name + ":" + t.release, t.name, false}
	}
	return query{t.ecosystem.name, t.name, false}
}

// compareAll returns the records that apply to the target. For a target with MatchUpstream, knows are the ids of all
// vulnerabilities that the records are about.
func (t *target) compareAll(rows []row) (found []hit, knows []string, err error) {
	if t.newest || t.match == MatchUpstream {
		for i := range rows {
			if err := rows[i].load(); err != nil {
				return nil, nil, err
			}
		}
	}
	if t.newest {
		rows = newestReleases(rows)
	}
	for i := range rows {
		r := &rows[i]
		if t.match == MatchUpstream {
			if r.versions.Unimportant {
				continue
			}
			knows = append(knows, r.about.ids()...)
		}
		if fixed, ok := t.applies(&r.versions); ok {
			if err := r.load(); err != nil {
				return nil, nil, err
			}
			found = append(found, hit{row: r, fixed: fixed, match: t.match, compare: t.ecosystem.compare})
		}
	}
	return found, knows, nil
}

// applies reports whether the version is vulnerable, and the first version that is not.
func (t *target) applies(v *vulnerable) (fixed string, ok bool) {
	if t.upstream != nil {
		return t.appliesUpstream(v)
	}
	if s, i := spanWith(v.Spans, t.version, t.compare); i >= 0 {
		return s.Fixed, true
	}
	return "", slices.ContainsFunc(v.Versions, func(listed string) bool {
		c, comparable := t.compare(t.version, listed)
		return listed == t.version || comparable && c == 0
	})
}

// appliesUpstream compares the version with the upstream parts of bounds. If a distribution has fixed a
// vulnerability with a patch to an upstream version, that version itself is vulnerable.
func (t *target) appliesUpstream(v *vulnerable) (fixed string, ok bool) {
	for _, s := range v.Spans {
		if s.Fixed == "" && s.Last == "" {
			continue // there is no version to compare with: the distribution has not fixed it in any
		}
		part := span{}
		if s.From != "" {
			part.From, _ = t.upstream(s.From)
		}
		if s.Last != "" {
			part.Last, _ = t.upstream(s.Last)
		}
		if s.Fixed != "" {
			bound, isFirst := t.upstream(s.Fixed)
			if isFirst {
				part.Fixed = bound
			} else {
				part.Last = bound
			}
		}
		if part.contains(t.version, t.compare) {
			return s.Fixed, true
		}
	}
	return "", false
}

// newestReleases returns each record once, for the newest release. Records about a fix in one release, such as
// DSA-…, are left out.
func newestReleases(rows []row) []row {
	at := map[string]int{}
	var out []row
	for _, r := range rows {
		if slices.ContainsFunc([]string{"DSA-", "DLA-", "DTSA-", "USN-", "LSN-"}, func(prefix string) bool { return strings.HasPrefix(r.about.ID, prefix) }) {
			continue
		}
		i, ok := at[r.about.ID]
		if !ok {
			at[r.about.ID] = len(out)
			out = append(out, r)
		} else if compareReleases(r.ecosystem, out[i].ecosystem) > 0 {
			out[i] = r
		}
	}
	return out
}

// compareReleases compares ecosystems by their releases, e.g. "Alpine:v3.9" and "Alpine:v3.20".
func compareReleases(a, b string) int {
	_, a, _ = strings.Cut(a, ":")
	_, b, _ = strings.Cut(b, ":")
	c, _ := compareSemver(a, b)
	return c
}
