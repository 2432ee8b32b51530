// Package sbom writes bills of materials of images in SPDX 2.3 and CycloneDX 1.6, both as JSON.
// Equal values give equal bytes on every server: identifiers are derived from the contents, and
// the time is that of the image. The package does no I/O.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/package-url/packageurl-go"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// An Image is an image for one platform with its components.
type Image struct {
	// Repository is the name of the image without tag and digest, e.g. "quay.io/lab/tools"; "" if
	// no registry has the image under a permanent name. Name is then its name.
	Repository, Name string
	// Digest is that of the manifest, e.g. "sha256:4bcb…".
	Digest string
	// Platform is e.g. "linux/amd64"; of an index, those of its images, separated by commas.
	Platform string
	// Created is when the image was created. A year before 1970 or after 9999 is written as 1970-01-01.
	Created time.Time
	// Note tells the reader which contents of the image the components do not include; "" for none.
	Note       string
	Components []Component
}

// A Component is a package in an image.
type Component struct {
	Name    string
	Version string
	// PURL is the package URL; see Conda and PURL.
	PURL string
	// License is an SPDX expression, or any other text that names the licence; "" if unknown.
	License string
	// URL is where the artifact is; "" if unknown.
	URL string
	// SHA256 and MD5 are of the artifact, in hex; "" if unknown.
	SHA256, MD5 string
	// Layer is the digest of the layer with the package; "" if unknown.
	Layer string
	// Path is the file or folder in the image that states that the package is installed, or the
	// environment that contains it.
	Path string
	// Requires lists the names of the components that this one needs. Names without a component
	// of the same path are ignored.
	Requires []string
}

// A Format is a format of bills of materials.
type Format string

// The formats.
const (
	SPDX      Format = "spdx"
	CycloneDX Format = "cyclonedx"
)

// ParseFormat returns the format with a name; "" is SPDX. It returns fault.Invalid for any other.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case "":
		return SPDX, nil
	case SPDX, CycloneDX:
		return f, nil
	}
	return "", fault.Invalid.Newf("format must be spdx or cyclonedx")
}

// MediaType returns the media type of documents in the format.
func (f Format) MediaType() string {
	if f == CycloneDX {
		return "application/vnd.cyclonedx+json; version=1.6"
	}
	return "application/spdx+json"
}

// Document returns the bill of materials of an image. It returns fault.Invalid if the document would have
// more than limits.SBOM bytes.
func (m Image) Document(f Format) ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	d := newDocument(m)
	if f == CycloneDX {
		return d.cycloneDX()
	}
	return d.spdx()
}

// check estimates the size of the document before it is in memory.
func (m Image) check() error {
	// Strings are in the document up to three times; relations consist of identifiers.
	const component, relation = 1000, 4*maxIdentifier + 100
	n := 0
	for i := range m.Components {
		c := &m.Components[i]
		n += component + 3*(len(c.Name)+len(c.Version)+len(c.PURL)+len(c.License)+len(c.URL)+len(c.Path)+len(c.Layer)) + relation*len(c.Requires)
		if n > limits.SBOMEstimate {
			return fault.Invalid.Newf("The bill of materials would have more than %d MiB: the image has too many packages, or relations between them", limits.SBOM>>20)
		}
	}
	return nil
}

// PURL returns the package URL of a component. Qualifiers without a value are left out. An empty
// namespace has none.
func PURL(kind, namespace, name, version string, qualifiers map[string]string) string {
	p := packageurl.NewPackageURL(kind, namespace, name, version, nonEmpty(qualifiers), "")
	// Normalize also returns an error for components that the type requires, such as the namespace
	// of deb. The URL still names the package.
	_ = p.Normalize()
	return p.ToString()
}

func nonEmpty(qualifiers map[string]string) packageurl.Qualifiers {
	out := packageurl.Qualifiers{}
	for k, v := range qualifiers {
		if v != "" {
			out = append(out, packageurl.Qualifier{Key: k, Value: v})
		}
	}
	slices.SortFunc(out, func(a, b packageurl.Qualifier) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// A document is what both formats have in common.
type document struct {
	image Image
	// id is derived from everything in the image.
	id       uuid.UUID
	licenses licenses
	items    []item
}

// An item is a component with the references of both formats.
type item struct {
	Component
	id       string
	license  license
	requires []string // ids
}

// newDocument sorts the components and removes equal ones.
func newDocument(m Image) *document {
	d := &document{image: m, licenses: licenses{}}
	seen := map[string]bool{}
	for _, c := range m.Components {
		it := item{Component: clean(c)}
		it.id = it.reference()
		if seen[it.id] {
			continue
		}
		seen[it.id] = true
		it.license = d.licenses.parse(c.License)
		d.items = append(d.items, it)
	}
	slices.SortFunc(d.items, func(a, b item) int { return strings.Compare(a.id, b.id) })
	d.relate()
	d.id = d.identifier()
	return d
}

// relate resolves the names of required components.
func (d *document) relate() {
	type place struct{ path, name string }
	at := map[place]string{}
	for _, it := range d.items {
		at[place{it.Path, it.Name}] = it.id
	}
	for i := range d.items {
		it := &d.items[i]
		for _, name := range it.Requires {
			if id, ok := at[place{it.Path, name}]; ok && id != it.id {
				it.requires = append(it.requires, id)
			}
		}
		slices.Sort(it.requires)
		it.requires = slices.Compact(it.requires)
	}
}

// identifier returns an identifier of the document: equal for equal images, different otherwise.
func (d *document) identifier() uuid.UUID {
	sum := sha256.New()
	image := d.image
	image.Components = nil
	e := json.NewEncoder(sum)
	_ = e.Encode(image) // neither strings nor a hash give errors
	for _, it := range d.items {
		_ = e.Encode(it.Component)
		_ = e.Encode(it.requires)
	}
	return uuid.NewHash(sha256.New(), uuid.NameSpaceURL, sum.Sum(nil), 8) // version 8 is for custom hashes (RFC 9562)
}

// clean removes values that the formats do not allow: images are untrusted.
func clean(c Component) Component {
	if !isHex(c.SHA256, sha256.Size) {
		c.SHA256 = ""
	}
	if !isHex(c.MD5, 16) {
		c.MD5 = ""
	}
	c.SHA256, c.MD5 = strings.ToLower(c.SHA256), strings.ToLower(c.MD5)
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || !slices.Contains([]string{"https", "http", "oci"}, u.Scheme) {
		c.URL = ""
	} else {
		u.User = nil
		c.URL = u.String() // spaces are escaped
	}
	c.Name, c.Version, c.Path = valid(c.Name), valid(c.Version), valid(c.Path)
	c.Requires = slices.Sorted(slices.Values(c.Requires))
	return c
}

// valid returns a string without invalid UTF-8 and characters that control how text is shown.
func valid(s string) string { return visible(s, "") }

// visible is valid, but keeps the control characters in keep.
func visible(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) && !strings.ContainsRune(keep, r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

func isHex(s string, size int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == size
}

// kind returns the type of the package URL, e.g. "conda".
func (i item) kind() string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(i.PURL, "pkg:"), "/")
	return kind
}

// reference returns an identifier that is unique in the document and valid in both formats,
// e.g. "conda-zlib-1.3.1-0f3a…".
func (i item) reference() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{i.PURL, i.Name, i.Version, i.Path, i.Layer, i.SHA256, i.MD5, i.URL, i.License, strings.Join(i.Requires, "\n")}))
	name := identifierOf(i.kind() + "-" + i.Name + "-" + i.Version)
	return name[:min(len(name), maxIdentifier-17)] + "-" + hex.EncodeToString(sum[:8])
}

// maxIdentifier is the maximum length of the identifier of a component.
const maxIdentifier = 80

// identifierOf replaces all characters that SPDX does not allow in identifiers.
func identifierOf(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '-'
	}, s)
}

// created returns the time of the document, without fractions of a second.
func (d *document) created() string {
	at := d.image.Created
	if y := at.UTC().Year(); y < 1970 || y > 9999 {
		at = time.Unix(0, 0)
	}
	return at.UTC().Format("2006-01-02T15:04:05Z")
}

// imageName returns the name of the image without its digest.
func (d *document) imageName() string { return valid(cmp.Or(d.image.Repository, d.image.Name)) }

// name returns the name of the image with its digest.
func (d *document) name() string { return d.imageName() + "@" + valid(d.image.Digest) }

// purl returns the package URL of the image.
func (d *document) purl() string {
	name := d.imageName()
	name = name[strings.LastIndexByte(name, '/')+1:]
	arch := ""
	if !strings.Contains(d.image.Platform, ",") {
		_, arch, _ = strings.Cut(d.image.Platform, "/")
		arch, _, _ = strings.Cut(arch, "/") // without the variant
	}
	return PURL(packageurl.TypeOCI, "", strings.ToLower(name), d.image.Digest, map[string]string{"repository_url": d.image.Repository, "arch": arch})
}

// digestHex returns the SHA-256 of the manifest in hex; "" for another algorithm.
func (d *document) digestHex() string {
	h, ok := strings.CutPrefix(d.image.Digest, "sha256:")
	if !ok || !isHex(h, sha256.Size) {
		return ""
	}
	return h
}
