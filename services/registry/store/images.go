package store

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
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

// An Image is a tag in the store.
type Image struct {
	Repository string    `json:"repository"`
	Tag        string    `json:"tag"`
	Digest     string    `json:"digest"`
	Size       int64     `json:"size"` // bytes, including blobs that are shared with other images
	Used       time.Time `json:"used"` // time of the last push, lookup or pull
}

// Images returns all images in the store, sorted by name.
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

// A Stored is a manifest in a store that is not open.
type Stored struct {
	// Repository is the name of the repository, and Layout the path of its OCI layout.
	Repository, Layout string
	// Tag is "" for a manifest without a tag.
	Tag, Digest string
	// Size is the total size of its blobs in bytes, including those shared with other images.
	Size int64
}

// Contents returns all manifests of the store below dir (see New) without opening it.
func Contents(dir string) ([]Stored, error) {
	s := &Store{dir: filepath.Join(dir, "images")}
	names, err := s.repositories()
	if err != nil {
		return nil, err
	}
	var out []Stored
	for _, name := range names {
		l := s.layout(name)
		entries, err := l.entries()
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, Stored{name, string(l), tagOf(e), e.Digest.String(), l.size(e.Digest)})
		}
	}
	return out, nil
}

// Repositories returns the names of all repositories of the store below dir (see New) without
// opening it. The repository NAME is the OCI layout in the folder images/NAME.
func Repositories(dir string) ([]string, error) {
	return (&Store{dir: filepath.Join(dir, "images")}).repositories()
}

// repositories returns the names of the folders with an OCI layout.
func (s *Store) repositories() (names []string, err error) {
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "blobs" || e.Name() == uploads || e.Name() == compositions):
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

// A layout is the folder of one repository, as specified by the OCI image layout
// specification. The modification time of a file is the time of its last use (see
// Store.touch).
type layout string

func (s *Store) layout(repository string) layout {
	return layout(filepath.Join(s.dir, filepath.FromSlash(repository)))
}

// tagOf returns the tag of an entry in index.json, or "".
func tagOf(e ocispec.Descriptor) string { return e.Annotations[ocispec.AnnotationRefName] }

// subjectOf returns the subject of a list of referrers, or "" for other entries.
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

// used returns the time of the last use of a blob, or the zero time if it does not exist.
func (l layout) used(d digest.Digest) time.Time {
	info, err := os.Stat(l.path(d))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// validate returns the media type of a manifest or an index, or the reason why it is
// rejected. olareg serves manifests with the type of their upload or of the last index that
// lists them, so that both must be correct. Otherwise an upload could change the type of
// another build's manifest.
func (l layout) validate(raw []byte, contentType string) (is, why string) {
	is, err := oci.Classify("", raw)
	if err != nil {
		return "", "The content is neither an image manifest nor an index"
	}
	contentType, _, _ = strings.Cut(contentType, ";")
	if contentType = strings.TrimSpace(contentType); contentType != "" && contentType != is {
		return "", "The manifest does not have the type in its Content-Type"
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
			return "", "The index has an entry with a wrong media type"
		}
	}
	return is, ""
}

// kind returns the media type of a manifest or an index, or "" for other blobs. It reads at
// most left bytes. A composed blob is never served as a manifest.
func (l layout) kind(d digest.Digest, left *int64) (mediaType string, err error) {
	if l.isComposed(d) {
		return "", nil
	}
	info, err := os.Stat(l.path(d))
	if err != nil || info.Size() > limits.StoredManifest {
		return "", err // a blob of this size is a layer
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
		return "", nil //nolint:nilerr // not a manifest
	}
	return mediaType, nil
}

// children returns the digests that a manifest, an index, or a composed blob refers to directly.
func (l layout) children(d digest.Digest) []digest.Digest {
	if l.isComposed(d) {
		c, _ := l.composition(d) // a malformed one has no parts
		return slices.Collect(maps.Keys(c.Blobs()))
	}
	info, err := os.Stat(l.path(d))
	if err != nil || info.Size() > limits.StoredManifest {
		return nil // a layer, or deleted
	}
	var doc struct {
		Config    ocispec.Descriptor   `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if raw := l.object(d); raw == nil || json.Unmarshal(raw, &doc) != nil {
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

// object returns the content of a blob that begins like a JSON object, or nil. It reads one byte of
// other blobs, such as small layers.
func (l layout) object(d digest.Digest) []byte {
	f, err := os.Open(l.path(d))
	if err != nil {
		return nil
	}
	defer f.Close()
	var first [1]byte
	if _, err := f.ReadAt(first[:], 0); err != nil || first[0] != '{' {
		return nil
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	return raw
}

// mark adds a manifest and all digests that it refers to.
func (l layout) mark(marked map[digest.Digest]bool, d digest.Digest) {
	if marked[d] {
		return
	}
	marked[d] = true
	for _, next := range l.children(d) {
		l.mark(marked, next)
	}
}

// size returns the total size of an image.
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

// blobs calls each for all blobs.
func (l layout) blobs(each func(d digest.Digest, info fs.FileInfo)) error {
	files, err := filepath.Glob(filepath.Join(string(l), "blobs", "*", "*"))
	for _, f := range files {
		d := digest.NewDigestFromEncoded(digest.Algorithm(filepath.Base(filepath.Dir(f))), filepath.Base(f))
		info, err := os.Stat(f)
		if err != nil { // the list of pieces of a composed blob is lost
			info, err = os.Lstat(f)
		}
		if err == nil && !info.IsDir() && d.Validate() == nil {
			each(d, info)
		}
	}
	return err
}

// digestOf returns the digest at the end of a path of the distribution API, or "".
func digestOf(path string) digest.Digest {
	d := digest.Digest(path[strings.LastIndexByte(path, '/')+1:])
	if d.Validate() != nil {
		return ""
	}
	return d
}
