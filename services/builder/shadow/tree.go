// Package shadow holds an image that was put together of Conda packages against one
// in which an installer has installed the same packages. It compares what is there:
// names, kinds, modes, links, bytes, and what conda-meta says of the packages. What
// two installers never do alike is told apart from what is wrong.
package shadow

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Kind is what a name stands for.
type Kind string

// The kinds. A hard link is a file.
const (
	File   Kind = "file"
	Folder Kind = "folder"
	Link   Kind = "link"
	Other  Kind = "other"
)

// Entry is what a name stands for.
type Entry struct {
	Kind Kind
	// Mode is the permissions, with setuid, setgid and sticky bits; 0 for links, which
	// have none of their own.
	Mode int64
	// Target is where a symbolic link leads, as it is written.
	Target string
	// Digest is that of a file's bytes.
	Digest digest.Digest
	// Time is when a file was changed last.
	Time time.Time
}

// Tree is what an image holds.
type Tree struct {
	entries map[string]Entry
	// records are the texts of conda-meta, by path; kept is how many bytes they have.
	records map[string][]byte
	kept    int64
}

// Read reads a tree from a tar with every name once, as package flatten writes it.
func Read(from io.Reader) (*Tree, error) {
	t := &Tree{entries: map[string]Entry{}, records: map[string][]byte{}}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err == nil {
			err = t.add(h, r)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the image: %w", err)
		}
	}
}

func (t *Tree) add(h *tar.Header, content io.Reader) error {
	name := clean(h.Name)
	e := Entry{Kind: Other, Mode: h.Mode & 0o7777, Time: h.ModTime}
	switch h.Typeflag {
	case tar.TypeLink:
		t.entries[name] = t.entries[clean(h.Linkname)]
		if raw, ok := t.records[clean(h.Linkname)]; ok && isRecord(name) {
			t.records[name] = raw
		}
		return nil
	case tar.TypeDir:
		e.Kind = Folder
	case tar.TypeSymlink:
		e.Kind, e.Mode, e.Target = Link, 0, h.Linkname
	case tar.TypeReg:
		e.Kind = File
		sum := digest.SHA256.Digester()
		into := io.Writer(sum.Hash())
		var kept bytes.Buffer
		if isRecord(name) && h.Size <= limits.Document {
			if t.kept += h.Size; t.kept > limits.CondaMeta {
				return errRecords
			}
			into = io.MultiWriter(into, &kept)
		}
		if _, err := io.Copy(into, content); err != nil {
			return err
		}
		if e.Digest = sum.Digest(); kept.Len() > 0 {
			t.records[name] = kept.Bytes()
		}
	}
	t.entries[name] = e
	return nil
}

var errRecords = fault.Invalid.Newf("The records of opt/conda/conda-meta have more than %d MiB together; the image cannot be compared", limits.CondaMeta>>20)

// clean is a path without a slash at either end.
func clean(name string) string { return strings.Trim(path.Clean("/"+name), "/") }

// meta is where installers say what they have installed.
const meta = "opt/conda/conda-meta/"

// isRecord says whether a file says what is installed of a package.
func isRecord(name string) bool { return path.Dir(name)+"/" == meta && path.Ext(name) == ".json" }
