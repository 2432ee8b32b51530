package listing

import (
	"archive/tar"
	"path"
	"slices"
	"strings"

	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
)

// Kind is what an entry of a layer is.
type Kind uint8

// The kinds. Removed is what lower layers have at a path and this one takes away, Emptied a
// directory of which it takes away all that they have in it.
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

// String is the kind's name at the REST edge.
func (k Kind) String() string {
	return [...]string{"other", "file", "directory", "symlink", "hardlink", "character", "block", "fifo", "removed", "emptied"}[k]
}

// File is an entry of a layer.
type File struct {
	// Path has no slash at its ends; "." is the root. It and Link are UTF-8: other bytes are
	// replaced.
	Path string
	// Link is where a symbolic link leads, or the other path of a hard link.
	Link string
	// Size is a regular file's length in bytes.
	Size int64
	// Mode is permissions, set-user-id, set-group-id and sticky bits.
	Mode uint16
	Kind Kind
	// at is the number of the entry: an archive can have several of one path.
	at int32
}

// weight is how much memory it takes, in bytes, about.
func (f File) weight() int { return 64 + len(f.Path) + len(f.Link) }

// fileOf is an entry as it is shown; shown is false for what belongs to the format of the
// layer alone.
func fileOf(h *tar.Header) (f File, shown bool, err error) {
	if len(h.Name) > limits.ListedPath || len(h.Linkname) > limits.ListedPath {
		return f, false, layertar.Refuse("has a path or a link of more than %d bytes", limits.ListedPath)
	}
	// The header's texts may be parts of much longer ones.
	f.Path = strings.ToValidUTF8(strings.Clone(trimmed(h.Name)), "\uFFFD")
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

// linkOf is where a link leads; "" of what is none.
func linkOf(h *tar.Header, kind Kind) string {
	if kind == Hardlink {
		return strings.ToValidUTF8(strings.Clone(trimmed(h.Linkname)), "\uFFFD")
	}
	if kind == Symlink {
		return strings.ToValidUTF8(strings.Clone(h.Linkname), "\uFFFD")
	}
	return ""
}

// removed is what a whiteout stands for.
func removed(dir, base string) (f File, shown bool, err error) {
	hidden, all, err := layertar.HiddenBy(base)
	switch {
	case err != nil:
		return f, false, err
	case all:
		return File{Path: trimmed(dir), Kind: Emptied}, true, nil
	case hidden == "":
		return f, false, nil
	}
	return File{Path: dir + hidden, Kind: Removed}, true, nil
}

// trimmed is a path as it is shown, whether it begins at the root or not.
func trimmed(name string) string {
	for strings.HasPrefix(name, "./") || strings.HasPrefix(name, "/") {
		name = strings.TrimLeft(strings.TrimPrefix(name, "."), "/")
	}
	if name = strings.TrimRight(name, "/"); name == "" {
		return "."
	}
	return name
}

// isFormat knows the table of contents of eStargz, and what says up to where it is fetched
// beforehand: no image is meant to have these files.
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
