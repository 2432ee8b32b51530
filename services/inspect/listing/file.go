package listing

import (
	"archive/tar"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// A Kind is the type of an entry of a layer.
type Kind uint8

// The kinds of entries. Removed is a whiteout: it removes the path of lower layers. Emptied is an
// opaque whiteout: it removes the contents of a directory of lower layers.
const (
	Other Kind = iota
	Regular
	Directory
	Symlink
	Hardlink
	Character
	Block
	Fifo
	Removed
	Emptied
)

// String returns the kind's name in the REST API.
func (k Kind) String() string {
	return [...]string{"other", "file", "directory", "symlink", "hardlink", "character", "block", "fifo", "removed", "emptied"}[k]
}

// A File is an entry of a layer.
type File struct {
	// Path has no leading or trailing slash; "." is the root. Path and Link are valid UTF-8:
	// invalid bytes are replaced.
	Path string
	// Link is the target of a symbolic or hard link.
	Link string
	// Size is a regular file's length in bytes.
	Size int64
	// Mode holds the permissions and the set-user-id, set-group-id and sticky bits.
	Mode uint16
	Kind Kind
	// at is the index of the entry in the archive, which can have several entries with one path.
	at int32
}

// weight returns the approximate memory that f uses, in bytes.
func (f File) weight() int { return 64 + len(f.Path) + len(f.Link) }

// fileOf converts the header of an entry. listed is false for entries that are only part of the
// layer's format.
func fileOf(h *tar.Header) (f File, listed bool, err error) {
	if len(h.Name) > limits.ListedPath || len(h.Linkname) > limits.ListedPath {
		return f, false, layertar.Invalidf("has a path or a link of more than %d bytes", limits.ListedPath)
	}
	// The header's strings may be substrings of much longer ones, which Clone releases.
	f.Path = strings.ToValidUTF8(strings.Clone(cleanPath(h.Name)), "\uFFFD")
	if isFormat(f.Path) {
		return f, false, nil
	}
	dir, base := path.Split(f.Path)
	if layertar.IsWhiteout(base) {
		return removed(dir, base)
	}
	f.Kind, f.Mode = kindOf(h), uint16(h.Mode&0o7777)
	f.Link = linkOf(h, f.Kind)
	if f.Kind == Regular {
		f.Size = h.Size
	}
	return f, true, nil
}

// linkOf returns the target of a link; "" for other kinds.
func linkOf(h *tar.Header, kind Kind) string {
	if kind == Hardlink {
		return strings.ToValidUTF8(strings.Clone(cleanPath(h.Linkname)), "\uFFFD")
	}
	if kind == Symlink {
		return strings.ToValidUTF8(strings.Clone(h.Linkname), "\uFFFD")
	}
	return ""
}

// removed returns the entry for a whiteout.
func removed(dir, base string) (f File, listed bool, err error) {
	hidden, all, err := layertar.ParseWhiteout(base)
	switch {
	case err != nil:
		return f, false, err
	case all:
		return File{Path: cleanPath(dir), Kind: Emptied}, true, nil
	case hidden == "":
		return f, false, nil
	}
	return File{Path: dir + hidden, Kind: Removed}, true, nil
}

// cleanPath returns a path without leading "./" and "/" and without trailing slashes; "." for the
// root.
func cleanPath(name string) string {
	for strings.HasPrefix(name, "./") || strings.HasPrefix(name, "/") {
		name = strings.TrimLeft(strings.TrimPrefix(name, "."), "/")
	}
	if name = strings.TrimRight(name, "/"); name == "" {
		return "."
	}
	return name
}

// isFormat reports whether a path is the table of contents or a prefetch landmark of eStargz,
// which are not part of the image's file system.
func isFormat(name string) bool {
	return slices.Contains([]string{"stargz.index.json", ".prefetch.landmark", ".no.prefetch.landmark"}, name)
}

func kindOf(h *tar.Header) Kind {
	switch h.Typeflag {
	case tar.TypeDir:
		return Directory
	case tar.TypeSymlink:
		return Symlink
	case tar.TypeLink:
		return Hardlink
	case tar.TypeChar:
		return Character
	case tar.TypeBlock:
		return Block
	case tar.TypeFifo:
		return Fifo
	}
	if layertar.IsFile(h) {
		return Regular
	}
	return Other
}
