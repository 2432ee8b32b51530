package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/internal/limits"
)

const (
	blobsDir  = "blobs/sha256"
	indexFile = "index.json"
	// partial is the folder of blobs that are being written.
	partial = ".partial"
)

// A layout is the folder or the tar file of a bundle: an OCI image layout. Its content may come from another
// person, so that its files are only opened if they are regular files in the folder. It is safe for
// concurrent use.
type layout struct {
	path string
	root *os.Root // the folder; nil for a tar file that is only read
	// tar has the files that the folder does not have; nil for none.
	tar *archive
	// target is the tar file that is written at the end; "" for a folder, and forgotten are the
	// paths of blobs that it does not get.
	target    string
	perm      fs.FileMode
	forgotten map[string]bool
	lock      *os.File // held while it is written; nil if it is only read
	// isNew reports whether createLayout created the folder.
	isNew bool
}

// errNoBlob is returned for a blob that a layout does not have.
var errNoBlob = errors.New("it is missing")

// A blobFile is an open file of a layout.
type blobFile interface {
	io.ReadSeeker
	io.Closer
}

// openLayout opens an existing layout: a folder or a tar file.
func openLayout(folder string) (*layout, error) {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return openTar(folder)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle: %w", err)
	}
	l := &layout{path: folder, root: root}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("%s is not a bundle: %w", folder, errors.Join(err, root.Close()))
	}
	return l, nil
}

// openTar opens the layout in a tar file.
func openTar(path string) (*layout, error) {
	a, err := openArchive(path)
	if errors.Is(err, errTruncated) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a bundle: %w", path, err)
	}
	l := &layout{path: path, tar: a}
	if err := l.check(); err != nil {
		a.close()
		return nil, fmt.Errorf("%s is not a bundle: %w", path, err)
	}
	return l, nil
}

func (l *layout) check() error {
	raw, err := l.read(ocispec.ImageLayoutFile, 1<<10)
	if err != nil {
		return err
	}
	var version ocispec.ImageLayout
	if err := json.Unmarshal(raw, &version); err != nil || version.Version != ocispec.ImageLayoutVersion {
		return fmt.Errorf("its %s does not have the version %s", ocispec.ImageLayoutFile, ocispec.ImageLayoutVersion)
	}
	if l.root == nil {
		_, _, err := l.tar.open(indexFile)
		return err
	}
	for _, name := range []string{"blobs", blobsDir} {
		info, err := l.root.Lstat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", name)
		}
	}
	return nil
}

// createLayout opens a layout, or creates it in a new or empty folder.
func createLayout(folder string) (*layout, error) {
	_, missing := os.Lstat(folder)
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // as other programs create folders
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ocispec.ImageLayoutFile }) {
		return nil, fmt.Errorf("%s has files and is not a bundle; give a new folder", folder)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	l := &layout{path: folder, root: root, isNew: errors.Is(missing, fs.ErrNotExist)}
	if err := l.init(); err != nil {
		l.close()
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	return l, nil
}

func (l *layout) init() error {
	if err := l.root.MkdirAll(blobsDir, 0o755); err != nil {
		return err
	}
	if err := l.acquire(); err != nil {
		return err
	}
	if err := l.clean(); err != nil { // of an interrupted run
		return err
	}
	if err := l.root.Mkdir(partial, 0o755); err != nil {
		return err
	}
	if _, err := l.root.Lstat(ocispec.ImageLayoutFile); errors.Is(err, fs.ErrNotExist) {
		if err := l.replace(ocispec.ImageLayoutFile, []byte(`{"imageLayoutVersion":"`+ocispec.ImageLayoutVersion+`"}`)); err != nil {
			return err
		}
	}
	return l.check()
}

// close closes the layout, whose files are on disk.
func (l *layout) close() {
	if l.root != nil {
		_ = l.root.Close()
	}
	if l.tar != nil {
		l.tar.close()
	}
	if l.lock != nil {
		// Closing alone would leave it locked while a child process is being started, which has the
		// descriptor until then.
		_ = errors.Join(syscall.Flock(int(l.lock.Fd()), syscall.LOCK_UN), l.lock.Close())
	}
}

// acquire locks the folder until the layout is closed. Two commands would delete each other's partial
// files. A file system without locks has none.
func (l *layout) acquire() error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	l.lock = f
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another slipway bundle is writing to the folder; wait until it ends")
	}
	held, err := f.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(l.path); err != nil || !os.SameFile(held, now) {
		return errors.New("another slipway bundle has just written the bundle; repeat the command")
	}
	return nil
}

// open opens a file of the folder or the tar file.
func (l *layout) open(name string) (blobFile, int64, error) {
	if l.root == nil {
		return l.tar.open(name)
	}
	f, size, err := l.openRegular(name)
	switch {
	case err == nil:
		return f, size, nil
	case l.tar != nil && errors.Is(err, fs.ErrNotExist):
		return l.tar.open(name)
	}
	return nil, 0, err
}

// openRegular opens a regular file of the folder. Links, and files that are replaced meanwhile, are refused.
func (l *layout) openRegular(name string) (*os.File, int64, error) {
	before, err := l.root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !before.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := l.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(before, info) {
		err = errors.New("it was replaced while it was opened")
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// read returns the content of a small file.
func (l *layout) read(name string, limit int64) ([]byte, error) {
	f, size, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return raw, err
}

// blobPath returns the path of a blob. Digests are never used as paths unless they are valid.
func blobPath(d digest.Digest) (string, error) {
	if err := d.Validate(); err != nil || d.Algorithm() != digest.SHA256 {
		return "", fmt.Errorf("%q is not a sha256 digest", d)
	}
	return path.Join(blobsDir, d.Encoded()), nil
}

// blob opens a blob, whose size must be that of its descriptor. It returns errNoBlob if the layout
// does not have it. The caller closes the file.
func (l *layout) blob(d ocispec.Descriptor) (blobFile, error) {
	name, err := blobPath(d.Digest)
	if err != nil {
		return nil, err
	}
	f, size, err := l.open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the blob %s of %s: %w", d.Digest, l.path, errNoBlob)
	case err != nil:
		return nil, fmt.Errorf("the blob %s of %s: %w", d.Digest, l.path, err)
	case size != d.Size:
		return nil, errors.Join(fmt.Errorf("the blob %s of %s has %d bytes instead of %d", d.Digest, l.path, size, d.Size), f.Close())
	}
	return f, nil
}

// has reports whether a blob is complete. The content of a blob in the folder is not read: it has its
// name only after its digest was verified.
func (l *layout) has(d ocispec.Descriptor) bool {
	f, err := l.blob(d)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, isInTar := f.(section); !isInTar {
		return true
	}
	got, err := digest.SHA256.FromReader(f)
	return err == nil && got == d.Digest
}

// document returns the content of a small blob, whose digest is verified.
func (l *layout) document(d ocispec.Descriptor, limit int64) ([]byte, error) {
	if d.Size > limit {
		return nil, fmt.Errorf("the document %s has %d bytes, and the limit is %d", d.Digest, d.Size, limit)
	}
	f, err := l.blob(d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, d.Size+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", d.Digest, l.path, err)
	}
	if digest.FromBytes(raw) != d.Digest {
		return nil, fmt.Errorf("the blob %s of %s was changed: its digest is %s", d.Digest, l.path, digest.FromBytes(raw))
	}
	return raw, nil
}

// put stores a blob. It has its name only when its size and digest are verified and it is on disk.
func (l *layout) put(d ocispec.Descriptor, content io.Reader) error {
	name, err := blobPath(d.Digest)
	if err != nil {
		return err
	}
	f, err := l.temporary(d.Digest.Encoded())
	if err != nil {
		return fmt.Errorf("storing %s: %w", d.Digest, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(content, d.Size+1))
	if got := digest.NewDigest(digest.SHA256, sum); err == nil && (n != d.Size || got != d.Digest) {
		err = fmt.Errorf("received %d bytes with the digest %s instead of %d bytes", n, got, d.Size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = l.root.Rename(l.nameOf(f), name)
	}
	if err != nil {
		_ = l.root.Remove(l.nameOf(f)) // it may be renamed
		return fmt.Errorf("storing %s: %w", d.Digest, err)
	}
	return nil
}

func (*layout) nameOf(f *os.File) string { return path.Join(partial, path.Base(f.Name())) }

// temporary creates a file in the folder of partial blobs.
func (l *layout) temporary(stem string) (*os.File, error) {
	for n := range 100 {
		f, err := l.root.OpenFile(path.Join(partial, fmt.Sprintf("%s.%d.%d", stem, os.Getpid(), n)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s has too many partial files; delete it", path.Join(l.path, partial))
}

// replace replaces a file of the layout.
func (l *layout) replace(name string, raw []byte) error {
	f, err := l.temporary(path.Base(name))
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = l.root.Rename(l.nameOf(f), name)
	}
	if err != nil {
		_ = l.root.Remove(l.nameOf(f)) // it may be renamed
	}
	return err
}

// clean deletes the partial files of this and of interrupted runs.
func (l *layout) clean() error { return l.root.RemoveAll(partial) }

// discard deletes the files of a layout that has no index, and its folder if createLayout created it.
// Of other layouts, it deletes partial files.
func (l *layout) discard() error {
	if err := l.clean(); err != nil {
		return err
	}
	if _, err := l.root.Lstat(indexFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = l.root.Remove(baseFile) // it may not exist
	for _, name := range []string{blobsDir, "blobs"} {
		if err := l.root.Remove(name); err != nil {
			return nil //nolint:nilerr // an interrupted run left blobs, which the next run uses
		}
	}
	err := l.root.Remove(ocispec.ImageLayoutFile)
	if l.isNew {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

// index returns the index. That of a new layout is empty.
func (l *layout) index() (ocispec.Index, error) {
	var out ocispec.Index
	raw, err := l.read(indexFile, limits.BundleIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("reading the index of %s: %w", l.path, err)
	}
	return parseIndex(raw)
}

// An entryList is the list of an index, which is decoded with bounds.
type entryList []ocispec.Descriptor

// UnmarshalJSON decodes the entries of an index.
func (l *entryList) UnmarshalJSON(raw []byte) (err error) {
	*l, err = file.List[ocispec.Descriptor](raw, limits.BundleManifests)
	return err
}

// parseIndex parses an index.json, and checks its descriptors.
func parseIndex(raw []byte) (ocispec.Index, error) {
	var doc struct {
		ocispec.Index
		Manifests entryList `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return ocispec.Index{}, fmt.Errorf("%s is not JSON of an index: %w", indexFile, err)
	}
	out := doc.Index
	out.Manifests = doc.Manifests
	names := 0
	for _, d := range out.Manifests {
		if _, err := blobPath(d.Digest); err != nil {
			return out, fmt.Errorf("%s: %w", indexFile, err)
		}
		if d.Size < 0 || d.Size > limits.Document {
			return out, fmt.Errorf("%s: the manifest %s has %d bytes, and the limit is %d", indexFile, d.Digest, d.Size, limits.Document)
		}
		if d.Annotations[ocispec.AnnotationRefName] != "" {
			names++
		}
	}
	if names > limits.BundleNames {
		return out, fmt.Errorf("%s has more than %d names", indexFile, limits.BundleNames)
	}
	return out, nil
}

// writeIndex replaces the index.
func (l *layout) writeIndex(manifests []ocispec.Descriptor) error {
	raw, err := json.MarshalIndent(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests}, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	if len(raw) >= limits.BundleIndex {
		return fmt.Errorf("the index of the bundle would be larger than %d bytes; use another folder", limits.BundleIndex)
	}
	if _, err := parseIndex(raw); err != nil {
		return fmt.Errorf("the bundle would be too large; use another folder: %w", err)
	}
	if err := l.replace(indexFile, append(raw, '\n')); err != nil {
		return fmt.Errorf("writing the index: %w", err)
	}
	return nil
}

// putBytes stores a document and returns its descriptor. A damaged one is replaced.
func (l *layout) putBytes(mediaType string, raw []byte) (ocispec.Descriptor, error) {
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
	if _, err := l.document(d, d.Size); err == nil {
		return d, nil
	}
	return d, l.put(d, bytes.NewReader(raw))
}

// forget deletes the record of an earlier run, unless the new record is the same, or an image has
// its content.
func (l *layout) forget(old, now ocispec.Descriptor, c *content) error {
	if _, ok := c.manifests[old.Digest]; ok || old.Digest == now.Digest {
		return nil
	}
	raw, err := l.document(old, limits.Document)
	if err != nil {
		return err
	}
	m, err := parseManifest(old, raw)
	if err != nil {
		return err
	}
	if m.config == nil || m.config.MediaType != recordType {
		return nil
	}
	if _, ok := c.blobs[m.config.Digest]; ok {
		return nil
	}
	for _, d := range []*ocispec.Descriptor{m.config, &old} {
		name, err := blobPath(d.Digest)
		if err != nil {
			return err
		}
		if err := l.root.Remove(name); err != nil && (l.tar == nil || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		if l.forgotten == nil {
			l.forgotten = map[string]bool{}
		}
		l.forgotten[name] = true
	}
	return nil
}
