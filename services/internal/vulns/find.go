package vulns

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sbom"
)

// Find returns the known vulnerabilities of components, the most severe first. Components whose package URL names
// no ecosystem of the database have none. It returns fault.Invalid if there are more than limits.ScanFindings.
func (d *Database) Find(ctx context.Context, components []sbom.Component) ([]Finding, error) {
	s := search{d: d, rows: map[query][]row{}, results: map[result]*hits{}}
	out := []Finding{}
	for i := range components {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := &components[i]
		found, err := s.component(ctx, c)
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > limits.ScanFindings {
			return nil, fault.Invalid.Newf("The image has more than %d known vulnerabilities, such as %s", limits.ScanFindings, out[0].ID)
		}
	}
	sortFindings(out)
	return out, nil
}

// A query selects the records about a package. If allReleases is set, ecosystem has no release.
type query struct {
	ecosystem, name string
	allReleases     bool
}

// A row is a record about a package.
type row struct {
	// raw is the encoded record until load has decoded it to about.
	raw      []byte
	about    record
	versions vulnerable
	// ecosystem is with the release.
	ecosystem string
}

// load decodes the record, once.
func (r *row) load() error {
	if r.raw == nil {
		return nil
	}
	if err := json.Unmarshal(r.raw, &r.about); err != nil {
		return fmt.Errorf("reading the database of vulnerabilities: %w", err)
	}
	r.raw = nil
	return nil
}

// A search finds the vulnerabilities of components. It reads the records of a package once.
type search struct {
	d    *Database
	rows map[query][]row
	// results has what was found of packages, which are often in an image several times.
	results map[result]*hits
	matches int
}

// A result identifies a package: its name and version in each ecosystem.
type result string

// resultOf returns the package of targets.
func resultOf(list []target) result {
	var out strings.Builder
	for _, t := range list {
		fmt.Fprintf(&out, "%v %q %q\n", t.query(), t.version, t.match)
	}
	return result(out.String())
}

// component returns the vulnerabilities of a component.
func (s *search) component(ctx context.Context, c *sbom.Component) ([]Finding, error) {
	list := targets(c)
	if len(list) == 0 {
		return nil, nil
	}
	key := resultOf(list)
	if known, ok := s.results[key]; ok {
		return known.findings(c), nil
	}
	var found hits
	for n, t := range list {
		rows, err := s.read(ctx, t.query())
		if err != nil {
			return nil, err
		}
		for i := range rows {
			s.matches += 1 + len(rows[i].versions.Spans) + len(rows[i].versions.Versions)
		}
		if s.matches > s.d.matches {
			return nil, fault.Invalid.Newf("The records about the packages of the image have more than %d versions, which is the limit", s.d.matches)
		}
		applying, knows, err := t.compareAll(rows)
		if err != nil {
			return nil, err
		}
		for i := range applying {
			applying[i].target = n
		}
		found.add(applying, knows)
	}
	found.sort()
	s.results[key] = &found
	return found.findings(c), nil
}

// read returns the records about a package.
func (s *search) read(ctx context.Context, q query) ([]row, error) {
	if rows, ok := s.rows[q]; ok {
		return rows, nil
	}
	upper := q.ecosystem
	if q.allReleases {
		upper += ":\U0010FFFF"
	}
	found, err := s.d.find.QueryContext(ctx, q.name, q.ecosystem, upper)
	if err != nil {
		return nil, fmt.Errorf("reading the database of vulnerabilities: %w", err)
	}
	defer func() { _ = found.Close() }() // found.Err has the error
	var out []row
	for found.Next() {
		var r row
		var affected sql.RawBytes
		if err := found.Scan(&r.ecosystem, &affected, &r.raw); err != nil {
			return nil, fmt.Errorf("reading the database of vulnerabilities: %w", err)
		}
		if name, _, _ := strings.Cut(r.ecosystem, ":"); q.allReleases && name != q.ecosystem {
			continue
		}
		if err := json.Unmarshal(affected, &r.versions); err != nil {
			return nil, fmt.Errorf("reading the database of vulnerabilities: %w", err)
		}
		out = append(out, r)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("reading the database of vulnerabilities: %w", err)
	}
	if len(s.rows) < 10_000 { // images have few packages with records
		s.rows[q] = out
	}
	return out, nil
}

// A hit is a record that applies to a component.
type hit struct {
	row   *row
	fixed string
	match Match
	// target is the index of the target that the record was found for. compare orders versions of its ecosystem.
	target  int
	compare func(a, b string) (int, bool)
}

// isAlone reports whether the record is about one vulnerability.
func (h *hit) isAlone() bool { return len(h.row.about.Upstream) <= 1 }

// sort puts records about one vulnerability first, and those of better sources. The order of the archive has no effect.
func (h *hits) sort() {
	slices.SortStableFunc(h.list, func(a, b hit) int {
		return cmp.Or(-compareFlags(a.isAlone(), b.isAlone()), cmp.Compare(a.target, b.target), strings.Compare(a.row.about.ID, b.row.about.ID))
	})
}

// hits are the records that apply to one component.
type hits struct {
	list []hit
	// decided are the ids of vulnerabilities that a better source of records has decided about, with either result.
	decided map[string]bool
}

// add adds records of a further source.
func (h *hits) add(found []hit, knows []string) {
	for _, f := range found {
		if f.match == MatchExact || !slices.ContainsFunc(f.row.about.ids(), func(id string) bool { return h.decided[id] }) {
			h.list = append(h.list, f)
		}
	}
	if h.decided == nil {
		h.decided = map[string]bool{}
	}
	for _, id := range knows {
		h.decided[id] = true
	}
}

// ids returns the ids of the vulnerabilities that a record is about, with its own.
func (r *record) ids() []string {
	return slices.Concat([]string{r.ID}, r.Aliases, r.Upstream)
}

// findings returns one finding for each vulnerability. Records with common ids are about the same one; a record
// about several vulnerabilities belongs to each of them.
func (h *hits) findings(c *sbom.Component) []Finding {
	groups := newGroups()
	for i := range h.list {
		r := &h.list[i].row.about
		switch len(r.Upstream) {
		case 0:
			groups.join(append([]string{r.ID}, r.Aliases...))
		case 1:
			groups.join(append([]string{r.ID, r.Upstream[0]}, r.Aliases...))
		default:
			for _, id := range r.Upstream {
				groups.join([]string{id})
			}
		}
	}
	byGroup := map[string]*Finding{}
	var order []string
	for i := range h.list {
		t := &h.list[i]
		about := []string{t.row.about.ID}
		if len(t.row.about.Upstream) > 1 {
			about = t.row.about.Upstream
		}
		for _, id := range about {
			key := groups.find(id)
			f := byGroup[key]
			if f == nil {
				f = &Finding{Package: c.Name, PURL: c.PURL, Version: c.Version, Layer: c.Layer, Path: c.Path}
				byGroup[key], order = f, append(order, key)
			}
			f.addRecord(t, len(about) == 1)
			if len(about) > 1 {
				f.Aliases = append(f.Aliases, id)
			}
		}
	}
	out := make([]Finding, 0, len(order))
	for _, key := range order {
		f := byGroup[key]
		f.name()
		out = append(out, *f)
	}
	return out
}

// addRecord adds what a record states. A record about the vulnerability alone is preferred to one about several.
func (f *Finding) addRecord(t *hit, alone bool) {
	r := &t.row.about
	f.Aliases = append(f.Aliases, r.ID)
	f.Severity = worst(f.Severity, t.row.severity())
	if alone {
		f.Aliases = append(append(f.Aliases, r.Aliases...), r.Upstream...)
	}
	if f.URL == "" {
		f.URL, f.Title, f.Source, f.Match = "https://osv.dev/vulnerability/"+r.ID, r.Title, t.row.ecosystem, t.match
	}
	// A version without the vulnerability satisfies all records.
	if c, ok := t.compare(f.Fixed, t.fixed); f.Fixed == "" || f.Source == t.row.ecosystem && t.fixed != "" && ok && c < 0 {
		f.Fixed = t.fixed
	}
}

// severity returns the severity of the vulnerability for the package.
func (r *row) severity() Severity {
	if r.versions.Unimportant {
		return Low
	}
	return cmp.Or(worst(r.versions.Severity, r.about.Severity), Unknown)
}

// name sets the id: that of a CVE if there is one.
func (f *Finding) name() {
	ids := slices.Compact(slices.Sorted(slices.Values(f.Aliases)))
	best := ids[0]
	for _, prefix := range []string{"CVE-", "GHSA-", "PYSEC-", "GO-", "DEBIAN-CVE-", "ALPINE-CVE-", "UBUNTU-CVE-"} {
		if i := slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(id, prefix) }); i >= 0 {
			best = ids[i]
			break
		}
	}
	f.ID, f.Aliases = best, slices.DeleteFunc(ids, func(id string) bool { return id == best })
}

// groups joins ids that mean the same (a union-find structure).
type groups struct{ parent map[string]string }

func newGroups() *groups { return &groups{map[string]string{}} }

// find returns the id that represents the group of an id.
func (g *groups) find(id string) string {
	for {
		p, ok := g.parent[id]
		if !ok || p == id {
			return id
		}
		if up, ok := g.parent[p]; ok {
			g.parent[id] = up // shortens the path
		}
		id = p
	}
}

func (g *groups) join(ids []string) {
	for _, id := range ids {
		if _, ok := g.parent[id]; !ok {
			g.parent[id] = id
		}
		a, b := g.find(ids[0]), g.find(id)
		if a != b {
			g.parent[b] = a
		}
	}
}
