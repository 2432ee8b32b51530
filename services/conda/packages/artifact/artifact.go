// Package artifact reads Conda artifacts, .conda (CEP 35) and .tar.bz2, and determines the
// files of an installed package: paths, prefixes, Python folders, entry points, links, and
// the conda-meta record.
//
// It runs nothing and writes only temporary files, which are deleted automatically.
// Artifacts are untrusted input; services/internal/limits has their limits. The caller has
// verified that the artifact is the requested one. Everything is read as a stream. Memory
// holds the lists of files and not their content.
package artifact

import (
	"context"
	"fmt"
	"io"
	"strings"

	"slipway.dev/services/internal/fault"
)

// An Artifact is one package as a channel offers it. It is not safe for concurrent use.
type Artifact struct {
	name string
	size int64
	in   io.ReaderAt
	// info and content are the two archives of a .conda; both are nil for a .tar.bz2.
	info, content *io.SectionReader

	index index
	link  link
	about About
	paths *paths
}

// Open reads an artifact's metadata. The suffix of its file name selects the format. The
// bytes of in are read again by Install. An artifact that is malformed or exceeds the
// limits is fault.Invalid.
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

// Name returns the package's name from its own metadata.
func (a *Artifact) Name() string { return a.index.Name }

// Version returns the package's version, as written.
func (a *Artifact) Version() string { return a.index.Version }

// Build returns the build string.
func (a *Artifact) Build() string { return a.index.Build }

// Python reports whether the paths of the package's files depend on the environment's
// Python.
func (a *Artifact) Python() bool {
	return a.link.Noarch.Type == noarchPython || a.index.Noarch == noarchPython
}

// refused adds the artifact's name to an error. Faults are errors of the artifact; other
// errors are those of the machine.
func (a *Artifact) refused(err error) error {
	if f, ok := fault.As(err); ok {
		return fault.In(clip(a.name)+" cannot be installed", f)
	}
	return fmt.Errorf("reading %s: %w", clip(a.name), err)
}

// invalid returns the fault of an invalid artifact.
func invalid(format string, args ...any) error { return fault.Invalid.Newf(format, args...) }

// clip shortens an external text for a message.
func clip(text string) string {
	const most = 120
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
