// Package vex reads OpenVEX documents (https://github.com/openvex/spec) and applies their statements to the results of
// scans: which vulnerabilities do not affect a product, and why. Documents come from any user, so that everything is
// bounded by the package limits.
package vex

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/package-url/packageurl-go"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A Status is the status of a product in an OpenVEX document.
type Status string

// The statuses.
const (
	NotAffected        Status = "not_affected"
	Affected           Status = "affected"
	Fixed              Status = "fixed"
	UnderInvestigation Status = "under_investigation"
)

// A Document is an OpenVEX document. Results mention it by its name, e.g. "user/site".
type Document struct {
	Name    string
	Content []byte
}

// A Set is the statements of one document. It is immutable.
type Set struct {
	name       string
	statements []statement
	byID       map[string][]*statement
	products   int
}

// Statements returns the number of statements.
func (s *Set) Statements() int { return len(s.statements) }

// Products returns the number of products, components and vulnerabilities.
func (s *Set) Products() int { return s.products }

// Newest returns the time of the newest statement, or the zero time if no statement has a time.
func (s *Set) Newest() time.Time {
	if len(s.statements) == 0 {
		return time.Time{}
	}
	return s.statements[len(s.statements)-1].time // they are sorted by time
}

// Sets are the statements of several documents.
type Sets []*Set

// A statement states the status of vulnerabilities of products.
type statement struct {
	time time.Time
	// ids are those of the vulnerability.
	ids []string
	// packages are those that the statement is about in all images, and images has those that it is about in one, by
	// its digest.
	packages      patterns
	images        map[string]*contents
	status        Status
	justification string
}

// A contents is what a statement is about in an image.
type contents struct {
	// all reports whether it is about all packages.
	all      bool
	packages patterns
}

// A patterns has package URLs by their type, namespace, name and version. Without a version, all versions are meant.
type patterns map[string][]packageurl.PackageURL

type rawDocument struct {
	Context    string         `json:"@context"`
	Timestamp  string         `json:"timestamp"`
	Statements []rawStatement `json:"statements"`
}

type rawStatement struct {
	Timestamp     string           `json:"timestamp"`
	Vulnerability rawVulnerability `json:"vulnerability"`
	Products      []rawProduct     `json:"products"`
	// Subcomponents are those of all products, in documents before version 0.2.
	Subcomponents []rawProduct `json:"subcomponents"`
	Status        Status       `json:"status"`
	Justification string       `json:"justification"`
	Impact        string       `json:"impact_statement"`
	Notes         string       `json:"status_notes"`
}

// A rawVulnerability is an object, or a name in documents before version 0.2.
type rawVulnerability struct {
	Name    string   `json:"name"`
	Aliases []string `json:"aliases"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *rawVulnerability) UnmarshalJSON(raw []byte) error {
	type plain rawVulnerability
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &v.Name)
	}
	return json.Unmarshal(raw, (*plain)(v))
}

// A rawProduct is an object, or an identifier in documents before version 0.2.
type rawProduct struct {
	ID            string            `json:"@id"`
	Identifiers   map[string]string `json:"identifiers"`
	Hashes        map[string]string `json:"hashes"`
	Subcomponents []rawProduct      `json:"subcomponents"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *rawProduct) UnmarshalJSON(raw []byte) error {
	type plain rawProduct
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, &p.ID)
	}
	return json.Unmarshal(raw, (*plain)(p))
}

// Parse parses an OpenVEX document. It returns fault.Invalid if it is not valid or exceeds a limit.
func Parse(doc Document) (*Set, error) {
	if len(doc.Content) > limits.VEX {
		return nil, fault.Invalid.Newf("An OpenVEX document may have %d MiB", limits.VEX>>20)
	}
	var in rawDocument
	if err := (bounded.Limits{Depth: limits.ScanDepth, Values: 20 * limits.VEXProducts}).Decode(doc.Content, &in); err != nil {
		return nil, fault.Invalid.New("The OpenVEX document is not valid JSON of its form", err)
	}
	switch {
	case !strings.HasPrefix(in.Context, "https://openvex.dev/ns"):
		return nil, fault.Invalid.Newf("The document is not an OpenVEX document: @context must be https://openvex.dev/ns/v0.2.0")
	case len(in.Statements) > limits.VEXStatements:
		return nil, fault.Invalid.Newf("An OpenVEX document may have %d statements", limits.VEXStatements)
	}
	out := &Set{name: doc.Name, byID: map[string][]*statement{}}
	n := 0
	for i := range in.Statements {
		n += in.Statements[i].size()
		if n > limits.VEXProducts {
			return nil, fault.Invalid.Newf("An OpenVEX document may have %d products and vulnerabilities", limits.VEXProducts)
		}
		st, err := in.Statements[i].parse(in.Timestamp)
		if err != nil {
			return nil, fault.Invalid.Newf("Statement %d of the OpenVEX document is not valid: %s", i+1, err)
		}
		out.statements = append(out.statements, st)
	}
	out.products = n
	// A later statement replaces an earlier one.
	slices.SortStableFunc(out.statements, func(a, b statement) int { return a.time.Compare(b.time) })
	for i := range out.statements {
		for _, id := range out.statements[i].ids {
			out.byID[id] = append(out.byID[id], &out.statements[i])
		}
	}
	return out, nil
}

// ParseAll parses documents. Among statements of the same time, those of later documents apply.
func ParseAll(docs []Document) (Sets, error) {
	var out Sets
	for _, doc := range docs {
		s, err := Parse(doc)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", doc.Name, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *rawStatement) parse(documentTime string) (statement, error) {
	out := statement{status: r.Status, justification: printable(cmp.Or(r.Justification, r.Impact, r.Notes), limits.VEXText)}
	var err error
	if at := cmp.Or(r.Timestamp, documentTime); at != "" {
		if out.time, err = time.Parse(time.RFC3339, at); err != nil {
			return out, errors.New("its timestamp must be like 2026-01-31T12:00:00Z")
		}
	}
	out.ids = names(append([]string{r.Vulnerability.Name}, r.Vulnerability.Aliases...))
	switch {
	case len(out.ids) == 0:
		return out, errors.New("it names no vulnerability")
	case !slices.Contains([]Status{NotAffected, Affected, Fixed, UnderInvestigation}, r.Status):
		return out, errors.New("its status must be not_affected, affected, fixed or under_investigation")
	case r.Status == NotAffected && r.Justification == "" && r.Impact == "":
		return out, errors.New("not_affected needs a justification or an impact_statement")
	}
	if len(r.Products) == 0 {
		return out, errors.New("it has no products")
	}
	out.packages, out.images = patterns{}, map[string]*contents{}
	var common patterns
	if len(r.Subcomponents) > 0 {
		common = patternsOf(r.Subcomponents)
	}
	for i := range r.Products {
		out.add(&r.Products[i], common)
	}
	return out, nil
}

// size returns the number of products, components and vulnerabilities.
func (r *rawStatement) size() int {
	n := 1 + len(r.Vulnerability.Aliases) + len(r.Products) + len(r.Subcomponents)
	for i := range r.Products {
		n += len(r.Products[i].Subcomponents) + len(r.Products[i].Identifiers)
	}
	return n
}

// add adds a product; common are the subcomponents of all products, or nil. Products that are neither images with a
// digest nor packages have no effect: they are no part of any image that is scanned.
func (s *statement) add(p *rawProduct, common patterns) {
	own := p.purls()
	digest := ""
	for i := range own {
		if u := &own[i]; u.Type == packageurl.TypeOCI && isDigest(u.Version) {
			digest = u.Version
		}
	}
	own = slices.DeleteFunc(own, func(u packageurl.PackageURL) bool { return u.Type == packageurl.TypeOCI })
	switch hash := "sha256:" + strings.ToLower(p.Hashes["sha-256"]); {
	case len(own) > 0: // a package, whose hash is that of its file
		digest = ""
	case isDigest(hash):
		digest = hash
	case isDigest(p.ID):
		digest = p.ID
	}
	if digest == "" {
		s.packages.add(own)
		return
	}
	c := s.images[digest]
	if c == nil {
		c = &contents{packages: patterns{}}
		s.images[digest] = c
		c.packages.merge(common)
	}
	// Subcomponents that are not packages match nothing, rather than everything.
	if len(p.Subcomponents) > 0 {
		c.packages.merge(patternsOf(p.Subcomponents))
	} else if common == nil {
		c.all = true
	}
}

// patternsOf returns the packages among products.
func patternsOf(list []rawProduct) patterns {
	out := patterns{}
	for i := range list {
		out.add(list[i].purls())
	}
	return out
}

func (p patterns) add(list []packageurl.PackageURL) {
	for _, u := range list {
		p[key(&u, u.Version)] = append(p[key(&u, u.Version)], u)
	}
}

func (p patterns) merge(other patterns) {
	for k, list := range other {
		p[k] = append(p[k], list...)
	}
}

// key returns the key of a package in patterns.
func key(u *packageurl.PackageURL, version string) string {
	return strings.Join([]string{u.Type, u.Namespace, u.Name, version}, "\n")
}

// A subject is the package of a vulnerability.
type subject struct {
	// keys are those of patterns that can name it.
	keys [2]string
	has  map[string]string
	// left is how many comparisons remain.
	left *int
}

func subjectOf(purl string, left *int) *subject {
	u, _ := packageurl.FromString(purl) // the zero value matches nothing
	return &subject{[2]string{key(&u, u.Version), key(&u, "")}, u.Qualifiers.Map(), left}
}

// include reports whether a package is one of those that are named.
func (p patterns) include(s *subject) bool {
	has := s.has
	for _, key := range s.keys {
		for _, pattern := range p[key] {
			if *s.left--; *s.left < 0 {
				return false
			}
			if !slices.ContainsFunc(pattern.Qualifiers, func(q packageurl.Qualifier) bool { return has[q.Key] != q.Value }) {
				return true
			}
		}
	}
	return false
}

// purls returns the package URLs that identify a product.
func (p *rawProduct) purls() []packageurl.PackageURL {
	var out []packageurl.PackageURL
	for _, s := range append([]string{p.ID}, slices.Sorted(maps.Values(p.Identifiers))...) {
		if len(s) > 4*limits.ScanName || !strings.HasPrefix(s, "pkg:") {
			continue
		}
		if u, err := packageurl.FromString(s); err == nil {
			out = append(out, u)
		}
	}
	return out
}

// isDigest reports whether s is a SHA-256 digest.
func isDigest(s string) bool {
	h, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(h) == 64 && strings.Trim(h, "0123456789abcdef") == ""
}

func (s *statement) isAbout(digest string, about *subject) bool {
	if *about.left--; *about.left < 0 {
		return false
	}
	if s.packages.include(about) {
		return true
	}
	c := s.images[digest]
	return c != nil && (c.all || c.packages.include(about))
}

// names returns the valid ones of ids.
func names(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return s == "" || len(s) > limits.ScanName || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar })
	})
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
