// Package shadow compares an image that was assembled from Conda packages with an image in
// which an installer has installed the same packages. It compares names, kinds, modes,
// links, bytes and conda-meta records. Differences that any two installers have are
// reported separately from errors.
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

// A Kind is the type of an entry.
type Kind string

// Kinds of entries. A hard link is a file.
const (
	File   Kind = "file"
	Folder Kind = "folder"
	Link   Kind = "link"
	Other  Kind = "other"
)

// An Entry is a file, folder or link of an image.
type Entry struct {
	Kind Kind
	// Mode holds the permissions with setuid, setgid and sticky bits, and 0 for links.
	Mode int64
	// Target is the target of a symbolic link, as written.
	Target string
	// Digest is the digest of a file's content.
	Digest digest.Digest
	// Time is a file's modification time.
	Time time.Time
}

// A Tree is the content of an image.
type Tree struct {
	entries map[string]Entry
	// records holds the conda-meta files by path, and kept their size in bytes.
	records map[string][]byte
	kept    int64
}

// Read reads a tree from a tar that has every name once, as package flatten writes it.
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

// clean removes leading and trailing slashes.
func clean(name string) string { return strings.Trim(path.Clean("/"+name), "/") }

// meta is the folder where installers record the installed packages.
const meta = "opt/conda/conda-meta/"

// isRecord reports whether a file is the record of an installed package.
func isRecord(name string) bool { return path.Dir(name)+"/" == meta && path.Ext(name) == ".json" }
