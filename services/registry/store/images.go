package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Image is a name in the store.
type Image struct {
	Repository string    `json:"repository"`
	Tag        string    `json:"tag"`
	Digest     string    `json:"digest"`
	Size       int64     `json:"size"` // bytes, with what it shares with others
	Used       time.Time `json:"used"` // when it was last pushed, asked for or pulled
}

// Images lists what the store holds, by name.
func (s *Store) Images() ([]Image, error) {
	var out []Image
	names, err := s.repositories()
	for _, name := range names {
		l := s.layout(name)
		entries, err := l.entries()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if tagOf(e) != "" {
				out = append(out, Image{name, tagOf(e), e.Digest.String(), l.size(e.Digest), l.used(e.Digest)})
			}
		}
	}
	return out, err
}

// repositories are the folders below the store's that hold an OCI layout.
func (s *Store) repositories() (names []string, err error) {
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "blobs" || e.Name() == uploads):
			return fs.SkipDir
		case e.Name() == "index.json":
			name, err := filepath.Rel(s.dir, filepath.Dir(path))
			names = append(names, filepath.ToSlash(name))
			return err
		}
		return nil
	})
	return names, err
}

// layout is the folder of one repository. Truth: the OCI image layout
// specification. The time of a file is when it was last used (see Store.touch).
type layout string

func (s *Store) layout(repository string) layout {
	return layout(filepath.Join(s.dir, filepath.FromSlash(repository)))
}

// tagOf is the tag of an entry of index.json; "" for none.
func tagOf(e ocispec.Descriptor) string { return e.Annotations[ocispec.AnnotationRefName] }

// subjectOf is what a list of referrers is about; "" for all else.
func subjectOf(e ocispec.Descriptor) digest.Digest {
	return digest.Digest(e.Annotations["org.olareg.referrer.subject"])
}

func (l layout) entries() ([]ocispec.Descriptor, error) {
	raw, err := os.ReadFile(filepath.Join(string(l), "index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var index ocispec.Index
	if err == nil {
		err = json.Unmarshal(raw, &index)
	}
	return slices.DeleteFunc(index.Manifests, func(e ocispec.Descriptor) bool { return e.Digest.Validate() != nil }), err
}

func (l layout) path(d digest.Digest) string {
	return filepath.Join(string(l), "blobs", d.Algorithm().String(), d.Encoded())
}

// used is when a blob was last used; zero when it is not there.
func (l layout) used(d digest.Digest) time.Time {
	info, err := os.Stat(l.path(d))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// judge finds the type of a manifest or an index, or says why it is not taken. The library serves
// a manifest under the type that it was pushed with, or that the last index gave it:
// so neither may be another than what it is, be it somebody else's.
func (l layout) judge(raw []byte, said string) (is, why string) {
	is, err := oci.Classify("", raw)
	if err != nil {
		return "", "This is neither a manifest nor an index of images"
	}
	said, _, _ = strings.Cut(said, ";")
	if said = strings.TrimSpace(said); said != "" && said != is {
		return "", "The manifest is not of the type that its Content-Type says"
	}
	if !oci.IsIndex(is) {
		return is, ""
	}
	index, err := oci.ParseIndex(oci.NewDocument(is, raw))
	if err != nil {
		return "", "The index is malformed, or has too many entries"
	}
	seen, left := map[digest.Digest]string{}, int64(limits.StoredManifest)
	for _, e := range index.Manifests {
		kind, ok := seen[e.Digest]
		if !ok {
			if kind, err = l.kind(e.Digest, &left); err != nil {
				return "", "The index has an entry that is not in the repository, or manifests that are too large together"
			}
			seen[e.Digest] = kind
		}
		if kind != e.MediaType && (kind != "" || oci.IsIndex(e.MediaType) || oci.IsManifest(e.MediaType)) {
			return "", "The index says of an entry that it is of another type than it is"
		}
	}
	return is, ""
}

// kind is the type of a manifest or an index; "" for any other blob. It reads no more bytes
// than are left.
func (l layout) kind(d digest.Digest, left *int64) (mediaType string, err error) {
	info, err := os.Stat(l.path(d))
	if err != nil || info.Size() > limits.StoredManifest {
		return "", err // what is that large is a layer
	}
	if *left -= info.Size(); *left < 0 {
		return "", fs.ErrInvalid
	}
	raw, err := os.ReadFile(l.path(d))
	if err != nil {
		return "", err
	}
	mediaType, err = oci.Classify("", raw)
	if err != nil {
		return "", nil //nolint:nilerr // it is a blob of its own kind
	}
	return mediaType, nil
}

// behind are the digests that a manifest or an index names itself.
func (l layout) behind(d digest.Digest) []digest.Digest {
	info, err := os.Stat(l.path(d))
	if err != nil || info.Size() > limits.StoredManifest {
		return nil // a layer, or gone
	}
	raw, err := os.ReadFile(l.path(d))
	var doc struct {
		Config    ocispec.Descriptor   `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err != nil || len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	var out []digest.Digest
	for _, e := range append(append(doc.Layers, doc.Manifests...), doc.Config) {
		if e.Digest.Validate() == nil {
			out = append(out, e.Digest)
		}
	}
	return out
}

// mark adds a manifest and everything behind it.
func (l layout) mark(marked map[digest.Digest]bool, d digest.Digest) {
	if marked[d] {
		return
	}
	marked[d] = true
	for _, next := range l.behind(d) {
		l.mark(marked, next)
	}
}

// size is what an image takes up.
func (l layout) size(d digest.Digest) (sum int64) {
	all := map[digest.Digest]bool{}
	l.mark(all, d)
	for one := range all {
		if info, err := os.Stat(l.path(one)); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// blobs calls each for every blob.
func (l layout) blobs(each func(d digest.Digest, info fs.FileInfo)) error {
	files, err := filepath.Glob(filepath.Join(string(l), "blobs", "*", "*"))
	for _, f := range files {
		d := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(f))), filepath.Base(f))
		info, err := os.Stat(f)
		if err == nil && !info.IsDir() && d.Validate() == nil {
			each(d, info)
		}
	}
	return err
}

// digestOf is what a path of the distribution API names by digest; "" for a tag.
func digestOf(path string) digest.Digest {
	d := digest.Digest(path[strings.LastIndexByte(path, '/')+1:])
	if d.Validate() != nil {
		return ""
	}
	return d
}
