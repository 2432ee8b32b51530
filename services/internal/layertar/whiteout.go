package layertar

import "strings"

// Names with a meaning of their own (layer.md, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	aufs     = ".wh..wh."
)

// IsWhiteout says whether an entry of this name, without its directory, stands for what
// is removed.
func IsWhiteout(name string) bool { return strings.HasPrefix(name, whiteout) }

// HiddenBy is what a whiteout hides of lower layers: one name, or all in its directory.
// It is neither for what aufs wrote for itself.
func HiddenBy(name string) (hidden string, all bool, err error) {
	hidden = strings.TrimPrefix(name, whiteout)
	switch {
	case name == opaque:
		return "", true, nil
	case strings.HasPrefix(name, aufs):
		return "", false, nil
	case hidden == "" || hidden == "." || hidden == "..":
		return "", false, Refuse("has a whiteout of no name, %q", name)
	}
	return hidden, false, nil
}
