package inspect

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/inspect/installed"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sbom"
)

// scope is the note of each bill of materials whose layers were read.
const scope = "Lists the packages of Conda, Debian (dpkg), Alpine (apk), Python and R that are installed in the image. Other software, such as programs that were copied, is not listed"

// lockLayer is the layer of the records of a lock.
const lockLayer = "lock"

// A bill collects the components of one image.
type bill struct {
	components []sbom.Component
	sentences  []string
	// gaps are the notes about parts of the image whose packages are not known.
	gaps []string
	// locked has the Conda packages of the lock by the paths of their records, without leading slash; nil if
	// there is no valid lock. lock has their records.
	locked map[string]sbom.Component
	lock   map[string]installed.Record
	// lockLayers are the digests of the layers that the lock describes.
	lockLayers map[string]bool
	// distribution is the record of the distribution; zero if unknown.
	distribution installed.Record
	// environments has the version of each Conda package by environment and name.
	environments map[string]map[string]string
	// byConda are the folders of Python packages that state that Conda has installed them.
	byConda map[string]bool
}

// note adds a sentence without full stop to the note.
func (b *bill) note(text string) { b.sentences = append(b.sentences, text) }

// gap is note for parts of the image whose packages are not known.
func (b *bill) gap(text string) {
	b.note(text)
	b.gaps = append(b.gaps, text)
}

// noteRefusal notes why records are not known, without the consequence, which is another one here.
func (b *bill) noteRefusal(e *unknownPackages) {
	reason, _, _ := strings.Cut(e.reason, ", so ")
	b.note(reason)
}

func (b *bill) notes() string {
	if len(b.sentences) == 0 {
		return ""
	}
	return strings.Join(b.sentences, ". ") + "."
}

// addLock takes the packages of a lock, with their layers. Wheels are components; Conda packages are only
// components unless other layers replace or remove them.
func (b *bill) addLock(records []lockedRecord, v variant) {
	b.locked, b.lock, b.lockLayers = map[string]sbom.Component{}, map[string]installed.Record{}, map[string]bool{}
	list := make([]spec.Record, 0, len(records))
	for _, r := range records {
		list = append(list, r.record())
	}
	components := sbom.Conda(list, lockPrefix())
	for i, p := range v.packages(records) {
		if p.GetLayer() != "" {
			components[i].Layer = p.GetLayer()
			b.lockLayers[p.GetLayer()] = true
		}
		if r := list[i]; r.IsWheel() {
			b.components = append(b.components, components[i])
		} else {
			at := path.Join(lockPrefix(), "conda-meta", r.Name+"-"+r.Version+"-"+r.Build+".json")[1:]
			b.locked[at], b.lock[at] = components[i], installed.Record{Name: r.Name, Version: r.Version, Build: r.Build}
		}
	}
	if at, err := v.environment(); err == nil {
		b.lockLayers[v.layers[at].Digest.String()] = true
	}
}

// stackOf returns what the packages of a variant are read from: the layers that the lock does not describe, and
// the lock in their midst.
func (b *bill) stackOf(v variant) stack {
	out := stack{lock: b.lock}
	env := len(v.layers)
	if b.lock != nil {
		env, _ = v.environment() // the lock was read from it
		out.lockDigest = v.lock
	}
	for i, l := range v.layers {
		switch {
		case b.lockLayers[l.Digest.String()]:
		case i < env:
			out.below = append(out.below, l)
		default:
			out.above = append(out.above, l)
		}
	}
	return out
}

// addContents adds the packages that are installed in layers.
func (b *bill) addContents(found *contents) {
	b.note(scope)
	if b.locked != nil {
		b.note("The Conda packages in " + lockPrefix() + " are those of the lock in the image; the layers that it describes were not read")
	}
	b.environments, b.byConda = map[string]map[string]string{}, map[string]bool{}
	unchanged := 0
	for _, p := range found.packages {
		switch p.Kind {
		case installed.System:
			if b.distribution.Name == "" { // that in /etc comes first
				b.distribution = p.Record
			}
		case installed.Conda:
			if b.addConda(p) {
				unchanged++
			}
		case installed.Installer:
			b.byConda[path.Dir(p.Path)] = true
		case installed.RPM:
			b.gap("The image has a database of RPM packages, which is not read")
		default:
		}
	}
	if unchanged < len(b.locked) {
		b.note(fmt.Sprintf("Other layers have replaced or removed packages of the lock: %d", len(b.locked)-unchanged))
	}
	for _, p := range found.packages {
		b.addInstalled(p)
	}
	if n := len(found.unreadable); n > 0 {
		b.gap(fmt.Sprintf("Packages may be missing, since files with records cannot be read: %d, such as %s", n, fault.Quote(found.unreadable[0])))
	}
}

// addConda adds a Conda package, and reports whether it is one of the lock. A layer that only copies the record,
// as after chmod, does not change the package.
func (b *bill) addConda(p installed.Package) (locked bool) {
	at := p.Prefix()
	if b.environments[at] == nil {
		b.environments[at] = map[string]string{}
	}
	b.environments[at][p.Name] = p.Version
	record := strings.TrimPrefix(p.Path, "/")
	if c, ok := b.locked[record]; ok && (p.Layer == lockLayer || p.Name == c.Name && p.Version == c.Version && p.Build == b.lock[record].Build) {
		b.components = append(b.components, c)
		return true
	}
	c := sbom.Conda([]spec.Record{{
		Name: p.Name, Version: p.Version, Build: p.Build, Channel: p.Channel, Subdir: p.Subdir, License: p.License, URL: p.URL, SHA256: p.SHA256, MD5: p.MD5,
	}}, at)[0]
	c.Layer = p.Layer
	b.components = append(b.components, c)
	return false
}

// addInstalled adds a package of another manager than Conda.
func (b *bill) addInstalled(p installed.Package) {
	kind, namespace, qualifiers := string(p.Kind), "", map[string]string{}
	switch p.Kind {
	case installed.Debian, installed.Alpine:
		namespace, qualifiers = b.distributed(p)
	case installed.Python, installed.R:
		if b.isOfConda(p) {
			return
		}
		if p.Kind == installed.R {
			kind = p.Channel
		}
	default:
		return
	}
	b.components = append(b.components, sbom.Component{
		Name: p.Name, Version: p.Version, PURL: sbom.PURL(kind, namespace, p.Name, p.Version, qualifiers), License: p.License, Path: p.Path, Layer: p.Layer,
	})
}

// distributed returns the namespace and the qualifiers of the package URL of a distribution's package. upstream
// is the source package, with its version if that differs, by which distributions report vulnerabilities; scanners read
// it.
func (b *bill) distributed(p installed.Package) (namespace string, qualifiers map[string]string) {
	qualifiers = map[string]string{"arch": p.Arch}
	switch {
	case p.SourceVersion != "" && p.SourceVersion != p.Version:
		qualifiers["upstream"] = p.Source + "@" + p.SourceVersion
	case p.Source != p.Name:
		qualifiers["upstream"] = p.Source
	}
	if b.distribution.Name != "" {
		qualifiers["distro"] = b.distribution.Name + "-" + b.distribution.Version
		return b.distribution.Name, qualifiers
	}
	if p.Kind == installed.Alpine {
		return "alpine", qualifiers
	}
	return "debian", qualifiers
}

// separators are equal in names of Python packages.
var separators = regexp.MustCompile("[-_.]+")

// isOfConda reports whether a package of Python or R was installed as a Conda package in the environment that
// contains it: according to its record, or because a Conda package has its name and version.
func (b *bill) isOfConda(p installed.Package) bool {
	name := strings.ToLower(p.Name)
	names := []string{"r-" + name, "bioconductor-" + name}
	if p.Kind == installed.Python {
		names = []string{name, separators.ReplaceAllString(name, "-"), separators.ReplaceAllString(name, "_")}
	}
	for at := path.Dir(p.Path); at != "/" && at != "."; at = path.Dir(at) {
		if in := b.environments[at]; in != nil {
			return b.byConda[path.Dir(p.Path)] || slices.ContainsFunc(names, func(n string) bool { return sameVersion(in[n], p.Version) })
		}
	}
	return false
}

// sameVersion compares versions of Conda and of Python or R: Conda has no "-" in versions.
func sameVersion(a, b string) bool { return a == strings.ReplaceAll(b, "-", "_") && a != "" }
