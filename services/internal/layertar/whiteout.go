package layertar

import "strings"

// Reserved names, see "Whiteouts" in layer.md.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	aufs     = ".wh..wh."
)

// IsWhiteout reports whether an entry with this base name is a whiteout, which removes
// files of lower layers.
func IsWhiteout(name string) bool { return strings.HasPrefix(name, whiteout) }

// ParseWhiteout returns what a whiteout with this base name hides in lower layers: one name
// in its directory, or everything in its directory. Both results are zero for the metadata
// files of aufs, which hide nothing.
func ParseWhiteout(name string) (hidden string, all bool, err error) {
	hidden = strings.TrimPrefix(name, whiteout)
	switch {
	case name == opaque:
		return "", true, nil
	case strings.HasPrefix(name, aufs):
		return "", false, nil
	case hidden == "" || hidden == "." || hidden == "..":
		return "", false, Invalidf("has a whiteout without a name, %q", name)
	}
	return hidden, false, nil
}
