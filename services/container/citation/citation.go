// Package citation writes how to cite an image that is kept: for BibTeX, as CITATION.cff, and as the
// metadata of an RO-Crate with the digests of everything that the image is made of. It is a pure function
// of the image.
package citation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
)

// An Image is what a citation describes.
type Image struct {
	// ID is its id in the catalog, and URL the page with that id.
	ID, URL string
	// Host is the registry, and Repository and Tag the rest of the name to pull.
	Host, Repository, Tag string
	// IsSIF is set for a Singularity image, and IsEnvironment for an environment without an image.
	IsSIF, IsEnvironment bool
	// Digest is that of its manifest; "" until the image is built.
	Digest string
	// Platforms are for display, e.g. "linux/amd64,linux/arm64".
	Platforms string
	Kept      time.Time
	// Lock is the lock with all packages.
	Lock     File
	Packages []Package
}

// A File is a file at an address.
type File struct {
	URL, SHA256 string // in hex
	Size        int64  // in bytes
}

// A Package is a package of the image, once for each platform that has it.
type Package struct {
	Name, Version, License string
	// URL is the address of the artifact, and SHA256 its digest in hex; "" if unknown.
	URL, SHA256 string
	// Requested is false for a dependency.
	Requested bool
}

// Formats of Text.
const (
	BibTeX  = "bibtex"
	CFF     = "cff"
	ROCrate = "ro-crate"
)

// Text returns the citation in a format, or fault.Invalid for another format.
func (i Image) Text(format string) (string, error) {
	switch format {
	case BibTeX:
		return i.bibTeX(), nil
	case CFF:
		return i.cff()
	case ROCrate:
		return i.roCrate()
	}
	return "", fault.Invalid.Newf("format must be %s, %s or %s, not %q", BibTeX, CFF, ROCrate, fault.Quote(format))
}

// cited returns the packages to cite: the requested ones, each once; all if none was requested.
func (i Image) cited() []Package {
	var out []Package
	seen := map[string]bool{}
	for _, requested := range []bool{true, false} {
		for _, p := range i.Packages {
			if key := p.Name + " " + p.Version; p.Requested == requested && !seen[key] {
				seen[key] = true
				out = append(out, p)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// title returns the title, e.g. "Container image of samtools 1.20 and bwa 0.7.18".
func (i Image) title() string { return i.kind() + " of " + i.contents() }

// contents lists the cited packages in words, at most five.
func (i Image) contents() string {
	cited := i.cited()
	var names []string
	for _, p := range cited[:min(len(cited), 5)] {
		names = append(names, p.Name+" "+p.Version)
	}
	switch rest := len(cited) - len(names); {
	case rest == 1:
		names = append(names, "1 other package")
	case rest > 1:
		names = append(names, fmt.Sprintf("%d other packages", rest))
	}
	return listed(names)
}

func listed(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func (i Image) kind() string {
	if i.IsSIF {
		return "Singularity image"
	}
	if i.IsEnvironment {
		return "Mounted environment"
	}
	return "Container image"
}

// pullName returns the name that engines pull.
func (i Image) pullName() string {
	scheme := ""
	if i.IsSIF {
		scheme = "oras://"
	}
	return scheme + i.Host + "/" + i.Repository + ":" + i.Tag
}

// inTeX escapes the special characters of TeX.
func inTeX(s string) string {
	return strings.NewReplacer(`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `&`, `\&`, `#`, `\#`, `_`, `\_`, `%`, `\%`, `~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`).Replace(s)
}

func (i Image) bibTeX() string {
	at := i.Kept.UTC()
	digest := ""
	if i.Digest != "" {
		digest = ", digest " + inTeX(i.Digest)
	}
	return fmt.Sprintf("@misc{slipway-%s,\n  title        = {%s},\n  author       = {{The developers of %s}},\n  year         = {%d},\n  month        = %s,\n"+
		"  howpublished = {\\url{%s}},\n  note         = {%s \\texttt{%s} (%s)%s}\n}\n",
		i.ID, inTeX(i.title()), inTeX(i.contents()), at.Year(), strings.ToLower(at.Format("Jan")), i.URL, i.kind(), inTeX(i.pullName()), inTeX(i.Platforms), digest)
}

// quoted returns a string for YAML, of which JSON is a subset.
func quoted(s string) string {
	out, _ := json.Marshal(s) // strings always can
	return string(out)
}

func (i Image) cff() (string, error) {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("cff-version: 1.2.0")
	line("message: %s", quoted("If you use this image, cite it and the software in it."))
	line("title: %s", quoted(i.title()))
	line("type: software")
	line("authors:\n  - name: %s", quoted("The developers of "+i.contents()))
	line("date-released: %s", i.Kept.UTC().Format(time.DateOnly))
	line("version: %s", quoted(i.Tag))
	line("url: %s", quoted(i.URL))
	line("identifiers:\n  - type: url\n    value: %s\n    description: %s", quoted(i.URL), quoted("The page of the image"))
	line("  - type: other\n    value: %s\n    description: %s", quoted(i.pullName()), quoted("The name to pull"))
	if i.Digest != "" {
		line("  - type: other\n    value: %s\n    description: %s", quoted(i.Digest), quoted("The digest of the image"))
	}
	line("references:")
	for _, p := range i.cited() {
		line("  - type: software\n    title: %s\n    version: %s\n    authors:\n      - name: %s", quoted(p.Name), quoted(p.Version), quoted("The developers of "+p.Name))
		if p.License != "" {
			line("    notes: %s", quoted("Licence: "+p.License))
		}
	}
	return out.String(), nil
}
