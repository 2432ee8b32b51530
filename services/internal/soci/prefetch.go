package soci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ztoc"
)

// TypePrefetch is the media type of a prefetch artifact: the spans of a layer that soci-snapshotter
// downloads when the layer is mounted (https://github.com/awslabs/soci-snapshotter, docs/prefetch.md).
const TypePrefetch = "application/vnd.amazon.soci.prefetch.v1+json"

// prefetchVersion is the version of the format.
const prefetchVersion = "1.0"

// An Artifact is the prefetch artifact of a layer that has a zTOC.
type Artifact struct {
	Layer    digest.Digest
	Document oci.Document
}

// A Missing is a path that is not prefetched, and the reason.
type Missing struct{ Path, Reason string }

// A Prefetched is the result of Prefetch.Resolve.
type Prefetched struct {
	// Artifacts are in the order of the layers.
	Artifacts []Artifact
	// Files is the number of paths whose files are in the artifacts. Whole is the number of those in
	// layers without a zTOC, which are downloaded as a whole.
	Files, Whole int
	Missing      []Missing
	// Unknown are layers whose files are not known. Paths are looked up as if they were empty.
	Unknown []digest.Digest
}

// A Prefetch looks up the files that are fetched first. All its results are pure functions of the
// layers and the paths. It is not safe for concurrent use.
type Prefetch struct {
	layers  []files
	entries int
	lookups int // of a path in a layer
}

// files are the files of a layer.
type files struct {
	layer   digest.Digest
	hasZtoc bool // the SOCI index lists the zTOC of the layer
	known   bool
	deletes bool          // it deletes files of the layers below
	listing *ztoc.Listing // the entries have clean names, and are sorted by them
}

// CanList reports whether the files of a layer can be read for Add.
func CanList(l ocispec.Descriptor) bool {
	switch l.MediaType {
	case ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageLayer, oci.TypeDockerLayer:
		return len(l.URLs) == 0
	}
	return false
}

// Add adds the next layer of the image, lowest first, with its encoded zTOC; nil if the layer has
// no zTOC. hasZtoc is set if the SOCI index has the zTOC. Add returns ztoc.ErrInvalid if it is malformed.
func (p *Prefetch) Add(l ocispec.Descriptor, raw []byte, hasZtoc bool) error {
	f := files{layer: l.Digest, hasZtoc: hasZtoc}
	if raw != nil && p.entries < limits.ImageEntries {
		listing, err := ztoc.Parse(raw)
		if err != nil {
			return fmt.Errorf("the layer %s: %w", l.Digest, err)
		}
		p.entries += len(listing.Entries)
		for i, e := range listing.Entries {
			listing.Entries[i].Name = clean(e.Name)
			f.deletes = f.deletes || strings.HasPrefix(path.Base(e.Name), whiteoutPrefix)
		}
		slices.SortStableFunc(listing.Entries, func(a, b ztoc.Entry) int { return cmp.Compare(a.Name, b.Name) })
		f.known, f.listing = true, listing
	}
	p.layers = append(p.layers, f)
	return nil
}

// clean returns a path of a tar without a leading slash; "" for the root.
func clean(name string) string { return path.Clean("/" + name)[1:] }

// find returns the last entry with a name.
func (f files) find(name string) (ztoc.Entry, bool) {
	if !f.known {
		return ztoc.Entry{}, false
	}
	i, found := slices.BinarySearchFunc(f.listing.Entries, name, func(e ztoc.Entry, name string) int { return cmp.Compare(e.Name, name) })
	if !found {
		return ztoc.Entry{}, false
	}
	for i+1 < len(f.listing.Entries) && f.listing.Entries[i+1].Name == name {
		i++
	}
	return f.listing.Entries[i], true
}

// whiteoutPrefix begins the name of an entry that deletes a file of the layers below, and opaqueName
// is that of an entry that deletes all files of its directory.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// hides reports whether the layer deletes a path, or one of its directories, from the layers below.
func (p *Prefetch) hides(f files, name string) bool {
	for at := name; at != ""; {
		p.lookups++
		dir, base := path.Split(at)
		if f.deletes {
			_, isDeleted := f.find(dir + whiteoutPrefix + base)
			_, isOpaque := f.find(dir + opaqueName)
			if isDeleted || isOpaque {
				return true
			}
		}
		at = strings.TrimSuffix(dir, "/")
		if e, found := f.find(at); at != "" && found && e.Kind != ztoc.KindDir {
			return true // it replaces a directory of the layers below
		}
	}
	return false
}

// lookup returns the entry with a name in the topmost layer, up to the layer top, that has it.
func (p *Prefetch) lookup(name string, top int) (layer int, e ztoc.Entry, found bool) {
	for i := top; i >= 0; i-- {
		p.lookups++
		if e, found := p.layers[i].find(name); found {
			return i, e, true
		}
		if p.hides(p.layers[i], name) {
			break
		}
	}
	return 0, ztoc.Entry{}, false
}

// linkLimit is the maximum number of links that a path is followed over, and pathLimit the maximum
// length of a path, as in Linux.
const linkLimit, pathLimit = 40, 4096

// The reasons why a path is not prefetched.
const (
	reasonMissing = "the image has no such file"
	reasonNoFile  = "it is not a file"
	reasonLinks   = "it has too many links"
	reasonLong    = "a path that it is a link to is too long"
	reasonEffort  = "the files before it took too long to be looked up"
	reasonNoDir   = "a part of the path is not a directory"
)

// resolve returns the layer and the entry of the file at a path, or the reason why it cannot be
// prefetched. It follows links. Directories need no entries.
func (p *Prefetch) resolve(name string) (layer int, e ztoc.Entry, reason string) {
	at, rest, links, top := "", strings.Split(clean(name), "/"), 0, len(p.layers)-1
	for len(rest) > 0 {
		var part string
		part, rest = rest[0], rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = parent(at)
			continue
		}
		if at = path.Join(at, part); len(at) > pathLimit {
			return 0, e, reasonLong
		}
		if p.lookups > limits.SociPrefetchLookups {
			return 0, e, reasonEffort
		}
		i, e, found := p.lookup(at, top)
		isLast := len(rest) == 0
		switch {
		case !found && isLast:
			return 0, e, reasonMissing
		case !found || e.Kind == ztoc.KindDir:
			top = len(p.layers) - 1
			continue
		case e.Kind != ztoc.KindSymlink && e.Kind != ztoc.KindHardLink:
			switch {
			case !isLast:
				return 0, e, reasonNoDir
			case e.Kind != ztoc.KindFile:
				return 0, e, reasonNoFile
			}
			return i, e, ""
		}
		if links++; links > linkLimit {
			return 0, e, reasonLinks
		}
		if len(e.Link) > pathLimit {
			return 0, e, reasonLong
		}
		switch target := clean(e.Link); {
		case e.Kind == ztoc.KindHardLink: // to a file of the layer, or of one below
			at, rest, top = parent(target), append([]string{path.Base("/" + target)}, rest...), i
		case strings.HasPrefix(e.Link, "/"):
			at, rest, top = "", append(strings.Split(e.Link, "/"), rest...), len(p.layers)-1
		default:
			at, rest, top = parent(at), append(strings.Split(e.Link, "/"), rest...), len(p.layers)-1
		}
	}
	return 0, ztoc.Entry{}, reasonNoFile
}

// parent returns the directory of a clean path; "" for the root.
func parent(name string) string { return path.Dir("/" + name)[1:] }

// A spanRange is a range of spans, in the form of the artifact.
type spanRange struct {
	First int `json:"start_span"`
	Last  int `json:"end_span"`
}

// Resolve returns the prefetch artifacts for absolute paths.
func (p *Prefetch) Resolve(paths []string) (Prefetched, error) {
	var out Prefetched
	for _, f := range p.layers {
		if !f.known {
			out.Unknown = append(out.Unknown, f.layer)
		}
	}
	p.lookups = 0
	ranges := map[digest.Digest][]spanRange{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		i, e, reason := p.resolve(name)
		switch f := p.layers; {
		case reason != "":
			out.Missing = append(out.Missing, Missing{name, reason})
		case !f[i].hasZtoc:
			out.Whole++
		default:
			out.Files++
			ranges[f[i].layer] = append(ranges[f[i].layer], spanRange{f[i].listing.Span(e.Offset), f[i].listing.Span(e.Offset + e.Size)})
		}
	}
	for _, f := range p.layers {
		found := ranges[f.layer]
		if delete(ranges, f.layer); len(found) == 0 {
			continue
		}
		raw, err := json.Marshal(struct {
			Version string      `json:"version"`
			Spans   []spanRange `json:"prefetch_spans"`
		}{prefetchVersion, merge(found)})
		if err != nil {
			return out, err
		}
		out.Artifacts = append(out.Artifacts, Artifact{f.layer, oci.NewDocument(TypePrefetch, raw)})
	}
	return out, nil
}

// merge sorts ranges, and joins those that overlap or touch.
func merge(ranges []spanRange) []spanRange {
	slices.SortFunc(ranges, func(a, b spanRange) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
	out := ranges[:1]
	for _, r := range ranges[1:] {
		if last := &out[len(out)-1]; r.First <= last.Last+1 {
			last.Last = max(last.Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Log returns the lines for a build's log: each path that is not prefetched has one.
func (r Prefetched) Log() []string {
	var out []string
	for _, l := range r.Unknown {
		out = append(out, fmt.Sprintf("The files of the layer %s cannot be listed: files to prefetch are looked up in the other layers", l))
	}
	for _, m := range r.Missing {
		out = append(out, fmt.Sprintf("The path %s is not prefetched: %s", m.Path, m.Reason))
	}
	return append(out, fmt.Sprintf("%d files are prefetched, from %d layers; %d are in layers that are downloaded as a whole, and %d were not found", r.Files, len(r.Artifacts), r.Whole, len(r.Missing)))
}
