// Command sbom writes the SPDX 2.3 SBOM of an image or an archive: the Go modules of its programs,
// from their build information, and its Debian packages. Equal contents give equal documents.
//
// Usage: sbom NAME VERSION ROOT [PACKAGES], where PACKAGES is a file with lines of
// `sha256  name_version_arch.deb`. Without it, ROOT is the content of an archive.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) != 4 && len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: sbom NAME VERSION ROOT [PACKAGES]")
		os.Exit(2)
	}
	doc, err := describe(os.Args[1], os.Args[2], os.Args[3], strings.Join(os.Args[4:], ""))
	if err == nil {
		var raw []byte
		if raw, err = json.MarshalIndent(doc, "", " "); err == nil {
			_, err = os.Stdout.Write(append(raw, '\n'))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is the part of SPDX 2.3 that sbom writes.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []part         `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type part struct {
	ID       string     `json:"SPDXID"`
	Name     string     `json:"name"`
	Version  string     `json:"versionInfo"`
	Download string     `json:"downloadLocation"`
	Analyzed bool       `json:"filesAnalyzed"`
	Sums     []checksum `json:"checksums,omitempty"`
	Refs     []external `json:"externalRefs,omitempty"`
	Comment  string     `json:"comment,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func describe(name, version, root, debs string) (*document, error) {
	kind := "oci"
	if debs == "" {
		kind = "generic"
	}
	image := newPart(kind, name, version)
	parts := map[string]part{}
	if err := programs(root, parts); err != nil {
		return nil, err
	}
	if debs != "" {
		if err := packages(root, debs, parts); err != nil {
			return nil, err
		}
	}
	created := time.Unix(0, 0)
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		d, err := time.ParseDuration(epoch + "s")
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		created = created.Add(d)
	}
	doc := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "-" + version,
		Creation: creation{created.UTC().Format(time.RFC3339), []string{"Tool: slipway-sbom"}},
		Packages: []part{image}, Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", image.ID}},
	}
	hash := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		doc.Packages = append(doc.Packages, parts[id])
		doc.Relationships = append(doc.Relationships, relationship{image.ID, "CONTAINS", id})
		fmt.Fprintln(hash, id, parts[id].Comment)
	}
	doc.Namespace = "https://slipway.dev/spdx/" + doc.Name + "-" + hex.EncodeToString(hash.Sum(nil)[:16])
	return doc, nil
}

// programs adds the modules of every Go program below root.
func programs(root string, parts map[string]part) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // not a Go program
		}
		add := func(name, version, sum string) {
			p := newPart("golang", name, version)
			p.Comment = sum // from go.sum: a hash of the module's files, not of an archive
			parts[p.ID] = p
		}
		add("stdlib", info.GoVersion, "")
		for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
			if m.Replace != nil && m.Replace.Version != "" {
				m = m.Replace
			}
			if m.Path != "" {
				add(m.Path, m.Version, m.Sum)
			}
		}
		return nil
	})
}

// packages adds the Debian packages of the image: all packages if their libraries are in the
// image, otherwise only ca-certificates.
func packages(root, list string, parts map[string]part) error {
	raw, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(root, "usr/bin/newuidmap"))
	all := err == nil
	for line := range strings.Lines(string(raw)) {
		sum, file, ok := strings.Cut(strings.TrimSpace(line), "  ")
		fields := strings.Split(strings.TrimSuffix(file, ".deb"), "_")
		if !ok || len(fields) != 3 {
			return fmt.Errorf("%s: lines have the form `sha256  name_version_arch.deb`: %q", list, line)
		}
		if !all && fields[0] != "ca-certificates" {
			continue
		}
		version, err := url.PathUnescape(fields[1])
		if err != nil {
			return fmt.Errorf("%s: %w", list, err)
		}
		p := newPart("deb/debian", fields[0], version)
		p.Sums = []checksum{{"SHA256", sum}}
		p.Refs[0].Locator += "?arch=" + fields[2] + "&distro=bookworm"
		parts[p.ID] = p
	}
	return nil
}

// newPart returns a package with a package URL of the kind.
func newPart(kind, name, version string) part {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}
	if version == "" {
		version = "(devel)"
	}
	return part{
		ID: "SPDXRef-" + strings.Map(plain, kind+"-"+name+"-"+version), Name: name, Version: version, Download: "NOASSERTION",
		Refs: []external{{"PACKAGE-MANAGER", "purl", "pkg:" + kind + "/" + name + "@" + url.PathEscape(version)}},
	}
}
