// Package artifact reads Conda artifacts, .conda (CEP 35) and .tar.bz2, and says
// which files an installed one has, with which content: paths, prefixes, Python
// folders, entry points, links, and the record in conda-meta.
//
// It writes nothing but scratch files that are gone by themselves, runs nothing,
// and takes an artifact for what a stranger made: see services/internal/limits.
// Whether it is the artifact that was asked for has been checked before.
// Everything is read as a stream; what stays in memory is what is listed, not
// what is packed.
package artifact

import (
	"context"
	"fmt"
	"io"
	"strings"

	"slipway.dev/services/internal/fault"
)

// Artifact is one package as a channel offers it. Not safe for concurrent use.
type Artifact struct {
	name string
	size int64
	in   io.ReaderAt
	// info and content are the two archives of a .conda; a .tar.bz2 has neither.
	info, content *io.SectionReader

	index index
	link  link
	paths *paths
}

// Open reads what an artifact says of itself. name is its file's, whose ending
// decides the format; in is its bytes, which are read again by Install. A
// malformed one is fault.Invalid, and so is one beyond the limits.
func Open(ctx context.Context, in io.ReaderAt, size int64, name string) (*Artifact, error) {
	a := &Artifact{name: name, size: size, in: in}
	var err error
	switch {
	case strings.HasSuffix(name, ".conda"):
		err = a.openZip()
	case strings.HasSuffix(name, ".tar.bz2"):
	default:
		return nil, fault.Invalid.Newf("%s is neither a .conda nor a .tar.bz2 artifact", clip(name))
	}
	if err == nil {
		err = a.readInfo(ctx)
	}
	if err != nil {
		return nil, a.refused(err)
	}
	return a, nil
}

// Name is the package's, as it says itself.
func (a *Artifact) Name() string { return a.index.Name }

// Version is the package's, as written.
func (a *Artifact) Version() string { return a.index.Version }

// Build is the build string.
func (a *Artifact) Build() string { return a.index.Build }

// Python says whether where its files go depends on the Python beside it.
func (a *Artifact) Python() bool {
	return a.link.Noarch.Type == noarchPython || a.index.Noarch == noarchPython
}

// refused says which artifact an error is about. What went wrong with the machine
// is no fault of the artifact's.
func (a *Artifact) refused(err error) error {
	if f, ok := fault.As(err); ok {
		return fault.In(clip(a.name)+" cannot be installed", f)
	}
	return fmt.Errorf("reading %s: %w", clip(a.name), err)
}

// bad is what is wrong with an artifact.
func bad(format string, args ...any) error { return fault.Invalid.Newf(format, args...) }

// clip shortens a text from outside for a message.
func clip(text string) string {
	const most = 120
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
