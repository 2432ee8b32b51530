package vulns

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/limits"
)

// A rawRecord is an OSV record (https://ossf.github.io/osv-schema/). Members that are not used are left out.
type rawRecord struct {
	ID        string          `json:"id"`
	Modified  string          `json:"modified"`
	Withdrawn string          `json:"withdrawn"`
	Aliases   []string        `json:"aliases"`
	Upstream  []string        `json:"upstream"`
	Summary   string          `json:"summary"`
	Details   string          `json:"details"`
	Severity  []rawSeverity   `json:"severity"`
	Affected  []rawAffected   `json:"affected"`
	Specific  json.RawMessage `json:"database_specific"`
}

type rawSeverity struct {
	Type  string `json:"type"`
	Score string `json:"score"`
}

type rawAffected struct {
	Package struct {
		Ecosystem string `json:"ecosystem"`
		Name      string `json:"name"`
	} `json:"package"`
	Severity []rawSeverity   `json:"severity"`
	Ranges   []rawRange      `json:"ranges"`
	Versions []string        `json:"versions"`
	Specific json.RawMessage `json:"ecosystem_specific"`
}

type rawRange struct {
	Type   string     `json:"type"`
	Events []rawEvent `json:"events"`
}

type rawEvent struct {
	Introduced   string `json:"introduced"`
	Fixed        string `json:"fixed"`
	LastAffected string `json:"last_affected"`
}

// A record is what the database stores of a record, apart from its packages.
type record struct {
	ID string `json:"i"`
	// Aliases are ids of the same vulnerability.
	Aliases []string `json:"a,omitempty"`
	// Upstream are ids of the vulnerabilities that the record is about.
	Upstream []string `json:"u,omitempty"`
	Severity Severity `json:"s,omitempty"`
	Title    string   `json:"t,omitempty"`
}

// An affected describes the vulnerable versions of a package in one ecosystem.
type affected struct {
	ecosystem, name string
	vulnerable
}

// A vulnerable is a set of vulnerable versions.
type vulnerable struct {
	Spans []span `json:"r,omitempty"`
	// Versions are vulnerable versions outside of Spans.
	Versions []string `json:"v,omitempty"`
	Severity Severity `json:"s,omitempty"`
	// Unimportant reports whether the distribution does not regard it as a vulnerability.
	Unimportant bool `json:"u,omitempty"`
}

// A span is a range of vulnerable versions. "" is no bound.
type span struct {
	From string `json:"f,omitempty"`
	// Fixed is the first version after the range, or Last its last one.
	Fixed string `json:"x,omitempty"`
	Last  string `json:"l,omitempty"`
}

var errWithdrawn = errors.New("the record is withdrawn")

// parseRecord returns a record with the packages of one ecosystem, and when it was modified. The error is
// errWithdrawn for a record that is no longer valid.
func parseRecord(raw []byte, of ecosystem) (record, []affected, time.Time, error) {
	var in rawRecord
	if err := (bounded.Limits{Depth: limits.ScanDepth, Values: limits.ScanValues}).Decode(raw, &in); err != nil {
		return record{}, nil, time.Time{}, err
	}
	modified, err := time.Parse(time.RFC3339, in.Modified)
	switch {
	case err != nil:
		return record{}, nil, time.Time{}, fmt.Errorf("reading the time of its change: %w", err)
	case in.Withdrawn != "":
		return record{}, nil, modified, errWithdrawn
	case !isName(in.ID):
		return record{}, nil, modified, errors.New("its id is empty, or has spaces or too many characters")
	case len(in.Affected) > limits.ScanPackages || len(in.Aliases)+len(in.Upstream) > limits.ScanAliases:
		return record{}, nil, modified, errors.New("it has too many packages or aliases")
	}
	out := record{
		ID: in.ID, Aliases: names(in.Aliases), Upstream: upstreamIDs(in.ID, in.Upstream), Severity: severityOf(in.Severity, in.Specific), Title: title(in.Summary, in.Details),
	}
	if strings.HasPrefix(in.ID, "MAL-") { // a package that was made to do harm
		out.Severity = Critical
	}
	list, err := packagesOf(in.Affected, of)
	return out, list, modified, err
}

// packagesOf returns the packages of one ecosystem, each once.
func packagesOf(in []rawAffected, of ecosystem) ([]affected, error) {
	var out []affected
	type place struct{ ecosystem, name string }
	at := map[place]int{}
	budget := limits.ScanReduced
	for i := range in {
		a := &in[i]
		key, ok := of.key(a.Package.Ecosystem)
		if !ok {
			continue
		}
		p := place{key, of.normal(a.Package.Name)}
		if !isName(p.name) || !isName(key) {
			return nil, errors.New("the name of a package or its ecosystem is empty, too long, or has spaces")
		}
		v, err := a.vulnerable(of, &budget)
		if err != nil {
			return nil, err
		}
		if j, known := at[p]; known {
			out[j].merge(v)
			if err := out[j].check(); err != nil {
				return nil, err
			}
			continue
		}
		at[p] = len(out)
		out = append(out, affected{p.ecosystem, p.name, v})
	}
	return out, nil
}

// check returns an error if there are too many versions.
func (v *vulnerable) check() error {
	if len(v.Spans) > limits.ScanRanges || len(v.Versions) > limits.ScanSpans {
		return errors.New("a package has too many versions")
	}
	return nil
}

func (v *vulnerable) merge(other vulnerable) {
	v.Spans, v.Versions = append(v.Spans, other.Spans...), append(v.Versions, other.Versions...)
	v.Severity, v.Unimportant = worst(v.Severity, other.Severity), v.Unimportant && other.Unimportant
}

// vulnerable returns the versions of an entry. Ranges of commits and ranges that cannot be ordered are left out.
// budget is how many comparisons may be made to leave out versions that are in ranges.
func (a *rawAffected) vulnerable(of ecosystem, budget *int) (vulnerable, error) {
	out := vulnerable{Severity: severityOf(a.Severity, a.Specific), Unimportant: text(a.Specific, "urgency") == "unimportant"}
	n := 0
	for _, r := range a.Ranges {
		n += len(r.Events)
	}
	if n > 2*limits.ScanRanges || len(a.Versions) > limits.ScanSpans {
		return out, errors.New("a package has too many versions")
	}
	for _, r := range a.Ranges {
		if r.Type == "GIT" {
			continue
		}
		spans, err := spansOf(r.Events, of)
		if err != nil {
			return out, err
		}
		out.Spans = append(out.Spans, spans...)
	}
	for _, v := range a.Versions {
		if !isVersion(v) {
			return out, errInvalidVersion
		}
		if *budget -= len(out.Spans); *budget > 0 {
			if _, in := spanWith(out.Spans, v, of.compare); in >= 0 {
				continue
			}
		}
		out.Versions = append(out.Versions, v)
	}
	return out, out.check()
}

// A point is an event of a range: the first vulnerable version, the first fixed, or the last vulnerable one.
type point struct {
	kind    byte
	version string
}

// spansOf converts the events of a range, in any order, to spans. It returns none if they cannot be ordered.
func spansOf(events []rawEvent, of ecosystem) ([]span, error) {
	points, err := pointsOf(events)
	if err != nil || slices.ContainsFunc(points, func(p point) bool { return !p.isOrdered(of) }) {
		return nil, err
	}
	slices.SortStableFunc(points, func(a, b point) int { return comparePoints(a, b, of) })
	var out []span
	var open *span
	for _, p := range points {
		if p.kind == 'i' {
			if open == nil {
				open = &span{From: p.version}
				if p.version == first {
					open.From = ""
				}
			}
			continue
		}
		if open == nil {
			continue
		}
		if p.kind == 'f' {
			open.Fixed = p.version
		} else {
			open.Last = p.version
		}
		out, open = append(out, *open), nil
	}
	if open != nil {
		out = append(out, *open)
	}
	return out, nil
}

// first is before all versions.
const first = "0"

// pointsOf returns the events of a range.
func pointsOf(events []rawEvent) ([]point, error) {
	var points []point
	for _, e := range events {
		for _, p := range []point{{'i', e.Introduced}, {'f', e.Fixed}, {'l', e.LastAffected}} {
			if p.version == "" {
				continue
			}
			if !isVersion(p.version) {
				return nil, errInvalidVersion
			}
			points = append(points, p)
		}
	}
	return points, nil
}

func (p point) isOrdered(of ecosystem) bool {
	_, ok := of.compare(p.version, p.version)
	return ok || p.version == first
}

// comparePoints orders events. At one version, a range ends before another one begins, and one that includes its last
// version ends after it begins.
func comparePoints(a, b point, of ecosystem) int {
	const order = "fil"
	return cmp.Or(compareBounds(a, b, of), cmp.Compare(strings.IndexByte(order, a.kind), strings.IndexByte(order, b.kind)))
}

func compareBounds(a, b point, of ecosystem) int {
	if a.version == first || b.version == first {
		return compareFlags(a.version != first, b.version != first)
	}
	c, _ := of.compare(a.version, b.version)
	return c
}

// spanWith returns the span that contains a version, and its index; -1 without such a span.
func spanWith(spans []span, version string, compare func(a, b string) (int, bool)) (span, int) {
	for i, s := range spans {
		if s.contains(version, compare) {
			return s, i
		}
	}
	return span{}, -1
}

// contains reports whether a version is in the span; false if it cannot be compared.
func (s span) contains(version string, compare func(a, b string) (int, bool)) bool {
	if _, ok := compare(version, version); !ok {
		return false
	}
	within := func(bound string, allowed func(c int) bool) bool {
		if bound == "" {
			return true
		}
		c, ok := compare(version, bound)
		return ok && allowed(c)
	}
	return within(s.From, func(c int) bool { return c >= 0 }) && within(s.Fixed, func(c int) bool { return c < 0 }) && within(s.Last, func(c int) bool { return c <= 0 })
}

// isName reports whether a text can be an id or the name of a package.
func isName(s string) bool {
	return s != "" && len(s) <= limits.ScanName && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}

// upstreamIDs returns the vulnerabilities that a record is about. Records of distributions name them both by their own
// id, such as UBUNTU-CVE-2024-45490, and by that of the CVE.
func upstreamIDs(id string, upstream []string) []string {
	list := names(upstream)
	if len(list) == 0 {
		list = []string{id}
	}
	var out []string
	for _, name := range list {
		for _, prefix := range []string{"DEBIAN-", "UBUNTU-", "ALPINE-"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasPrefix(rest, "CVE-") {
				name = rest
			}
		}
		if name != id && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// names returns the valid ones of ids.
func names(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !isName(s) })
}

var errInvalidVersion = errors.New("a version is empty, too long, or has spaces")

// isVersion reports whether a text can be a version.
func isVersion(s string) bool { return isName(s) && len(s) <= limits.ScanVersion }

// title returns the first line of the summary or of the details, without characters that are not printed.
func title(summary, details string) string {
	for _, s := range []string{summary, details} {
		for line := range strings.Lines(s) {
			if line = printable(line, limits.ScanTitle); line != "" {
				return line
			}
		}
	}
	return ""
}

// printable returns a text on one line, cut to most bytes, without characters that control how it is shown.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-len("…")], "") + "…"
	}
	return s
}

// text returns a member of an object that is a string; "" otherwise.
func text(raw json.RawMessage, member string) string {
	var in map[string]json.RawMessage
	var out string
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(in[member], &out) != nil {
		return ""
	}
	return out
}
