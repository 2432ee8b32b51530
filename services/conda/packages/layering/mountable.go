package layering

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"sync/atomic"

	"github.com/containerd/platforms"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
	"slipway.dev/services/mount/pack"
)

// A Mountable is the artifact with which an environment is mounted: the index of its files, and
// the blobs of its packages. It refers to the image of the environment, if there is one.
type Mountable struct {
	Manifest, Config oci.Document
	// Index is the compressed index.
	Index oci.Document
	// Blobs are the blobs of the packages, in their order.
	Blobs []Layer
	ids   []string // the IDs of the devices, in the same order
	// NotRun lists the activation scripts that could not be evaluated, with the reasons; only without
	// an image.
	NotRun []string
}

// blobKeys returns the keys of the blobs of packages. They do not depend on layers, so that
// environments with and without an image share the blobs.
func (m *Builder) blobKeys(records []spec.Record) ([]spec.LayerKey, error) {
	python, err := spec.PythonOf(records)
	if err != nil {
		return nil, err
	}
	var out []spec.LayerKey
	for _, rec := range records {
		key, err := m.blobKey(rec, python)
		if err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, nil
}

func (m *Builder) blobKey(rec spec.Record, python spec.Python) (spec.LayerKey, error) {
	return rec.LayerKey(python, fmt.Sprint(Mounted, pack.Version), m.Scope)
}

// Blobs returns the blob (package pack) of each package of an environment. The packages are those
// of the records, in their order. A blob has the files of the package's layer, from which it is
// made. Known, if not nil, is called with the number of existing and of missing blobs, and onBuilt
// with each blob that was built. If a layer was lost and is built again with another digest, the
// error is fault.NotFound, since the image has to be made again, too. With the compression Mounted,
// Packages returns the same blobs, and makes them without layers.
func (m *Builder) Blobs(ctx context.Context, records []spec.Record, packages []Package, known func(there, missing int), onBuilt func(spec.Record, Package)) ([]Package, error) {
	keys, err := m.blobKeys(records)
	if err != nil {
		return nil, err
	}
	w := &batch{Builder: m, known: known, onBuilt: onBuilt}
	for i, p := range packages {
		w.items = append(w.items, item{key: keys[i], rec: records[i], mediaType: pack.MediaType, build: func(ctx context.Context) (Package, error) {
			return m.Store.Keep(ctx, keys[i], func(out io.Writer) (Package, error) {
				one := []Package{p}
				if err := m.gather(ctx, records[i:i+1], one, []int{0}); err != nil {
					return Package{}, err
				}
				if one[0].Digest != p.Digest {
					return Package{}, fault.NotFound.Newf("The layer of %s was lost", p.By)
				}
				return writeBlob(ctx, m.Store, p, out)
			})
		}})
	}
	return w.build(ctx)
}

// writeBlob writes the blob of a package with the files of its layer.
func writeBlob(ctx context.Context, from Store, p Package, out io.Writer) (Package, error) {
	layer, err := from.Open(ctx, p.Layer)
	if err != nil {
		return Package{}, err
	}
	defer func() { _ = layer.Close() }()
	raw, done, err := p.unpacked(layer)
	if err != nil {
		return Package{}, err
	}
	defer done()
	sum := sha256.New()
	packed := &counter{out: io.MultiWriter(out, sum)}
	w := pack.NewWriter(packed)
	err = eachFile(ctx, raw, func(name string, h *tar.Header, content io.Reader) error { return addToBlob(w, name, h, content) })
	if err != nil {
		return Package{}, notMountable(p.By, fmt.Errorf("reading the layer %s: %w", p.Digest, err))
	}
	made, err := w.Close()
	if err != nil {
		return Package{}, notMountable(p.By, err)
	}
	p.Layer = Layer{MediaType: pack.MediaType, Digest: digest.NewDigest(digest.SHA256, sum), Size: packed.n, By: p.By, DiffID: digest.FromBytes(made.Index)}
	return p, nil
}

// notMountable converts an error about files that no index can represent to fault.Invalid.
func notMountable(what string, err error) error {
	if refusal := (*erofs.Refusal)(nil); errors.As(err, &refusal) || errors.Is(err, pack.ErrTooLarge) {
		return fault.Invalid.New(fmt.Sprintf("%s cannot be mounted: %v; request an image that is not mounted", what, err), err)
	}
	return err
}

// eachFile calls visit with the entries of a layer below the prefix, and their names below it.
func eachFile(ctx context.Context, layer io.Reader, visit func(name string, h *tar.Header, content io.Reader) error) error {
	prefix := strings.TrimPrefix(spec.Prefix, "/") + "/"
	for r := tar.NewReader(layer); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if name, ok := strings.CutPrefix(path.Clean(h.Name), prefix); ok {
			if err := visit(name, h, r); err != nil {
				return err
			}
		}
	}
}

func addToBlob(w *pack.Writer, name string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return w.Dir(name)
	case tar.TypeReg:
		return w.File(name, h.Mode, h.ModTime.Unix(), h.Size, content)
	case tar.TypeSymlink:
		return w.Symlink(name, h.Linkname, h.ModTime.Unix())
	case tar.TypeLink:
		return w.Link(name, strings.TrimPrefix(h.Linkname, strings.TrimPrefix(spec.Prefix, "/")+"/"))
	}
	return fmt.Errorf("%.200q has the type %q", name, h.Typeflag)
}

// Mountable returns the artifact of an image, whose packages have these blobs. The files that the
// image itself adds to the environment are in the index.
func (m *Builder) Mountable(ctx context.Context, records []spec.Record, blobs []Package, image Image) (Mountable, error) {
	own := func(tree *erofs.Tree) error { return addOwn(ctx, tree, image) }
	subject := describe(image.Manifest)
	described, err := oci.ParseManifest(image.Manifest)
	if err != nil {
		return Mountable{}, err
	}
	notes := map[string]string{ocispec.AnnotationCreated: described.Annotations[ocispec.AnnotationCreated], spec.LockLabel: described.Annotations[spec.LockLabel]}
	return m.mountable(ctx, records, blobs, own, environment.Config{}, ocispec.Manifest{Subject: &subject, Annotations: notes})
}

// Standalone returns the artifact of an environment without an image. Its Packages are blobs: the results of
// Packages with the compression Mounted. The error is fault.Invalid for an environment that cannot be mounted.
func (m *Builder) Standalone(ctx context.Context, e Environment) (Mountable, error) {
	env, refused, err := e.activated(ctx, nil)
	if err != nil {
		return Mountable{}, err
	}
	lock, err := json.Marshal(e.Records)
	if err != nil {
		return Mountable{}, err
	}
	files, err := e.ownFiles(lock, nil, env)
	if err != nil {
		return Mountable{}, err
	}
	own := func(tree *erofs.Tree) error { return e.addFiles(tree, files) }
	out, err := m.mountable(ctx, e.Records, e.Packages, own, environment.Config{Platform: platforms.Format(e.Platform), Env: env}, ocispec.Manifest{Annotations: e.annotations(lock)})
	for _, r := range refused {
		out.NotRun = append(out.NotRun, r.String())
	}
	return out, err
}

// mountable returns the artifact of packages, which have these blobs. own adds the files that are in no package.
// The other arguments hold what is added to the config and to the manifest.
func (m *Builder) mountable(ctx context.Context, records []spec.Record, blobs []Package, own func(*erofs.Tree) error, config environment.Config, manifest ocispec.Manifest) (Mountable, error) {
	index, err := m.index(ctx, blobs, own)
	if err != nil {
		return Mountable{}, err
	}
	x, err := erofs.Open(index)
	if err != nil {
		return Mountable{}, err
	}
	out := Mountable{Index: oci.NewDocument(environment.TypeIndex, packIndex(index))}
	config.Prefix, config.Index, config.Size, config.Inodes, config.Packages = spec.Prefix, digest.FromBytes(index), int64(len(index)), int64(x.Inodes()), []environment.Package{}
	for i, b := range blobs {
		out.Blobs = append(out.Blobs, b.Layer)
		out.ids = append(out.ids, x.Devices()[i].Name())
		config.Packages = append(config.Packages, environment.Package{Name: records[i].Name, Version: records[i].Version, Build: records[i].Build, Blob: out.ids[i], Size: b.Size})
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return Mountable{}, err
	}
	out.Config = oci.NewDocument(environment.TypeConfig, raw)
	if out.Manifest, err = out.manifest(manifest); err != nil {
		return out, err
	}
	// What clients would refuse must not be published.
	if len(index) > limits.MountIndexRaw || len(out.Index.Bytes) > limits.MountIndex || len(raw) > limits.MountConfig || len(blobs) > limits.MountPackages || len(out.Manifest.Bytes) > limits.Document {
		return out, fault.Invalid.Newf("The environment has too many packages or files to be mounted; request an image that is not mounted")
	}
	return out, nil
}

// index returns the index of an environment. own adds the files that are in no package.
func (m *Builder) index(ctx context.Context, blobs []Package, own func(*erofs.Tree) error) ([]byte, error) {
	indexes := make([]*erofs.Index, len(blobs))
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(m.Concurrency, 2))
	for i, b := range blobs {
		g.Go(func() (err error) {
			indexes[i], err = m.blobIndex(reading, b.Layer)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	tree := erofs.NewTree()
	var devices []erofs.Device
	for i, x := range indexes {
		if err := errors.Join(ctx.Err(), notMountable(blobs[i].By, tree.Merge(x, len(devices)))); err != nil {
			return nil, err
		}
		devices = append(devices, x.Devices()...)
	}
	if err := own(tree); err != nil {
		return nil, notMountable("The environment", err)
	}
	out, err := tree.Encode(devices)
	return out, notMountable("The environment", err)
}

// errOtherIndex is returned for a blob whose index is not the one that its record states.
var errOtherIndex = errors.New("the index of the package is not the recorded one")

// blobIndex returns the index of a package, which it verifies: from the store or the target. If the
// target does not return parts of the blob, or other ones, the whole blob is copied to the store.
func (m *Builder) blobIndex(ctx context.Context, l Layer) (*erofs.Index, error) {
	x, err := m.storedIndex(ctx, l)
	if !errors.Is(err, fault.NotFound) || m.Share == nil {
		return x, err
	}
	raw, err := pack.ReadIndex(partReader{ctx, m.Share.Target, l.descriptor()}, l.Size)
	if x, err := openIndex(raw, l, err); err == nil || ctx.Err() != nil {
		return x, err
	}
	_, err = m.Store.Keep(ctx, copyKey(Package{Layer: l}), func(out io.Writer) (Package, error) {
		return Package{Layer: l}, m.Share.copy(ctx, l, out)
	})
	if err != nil {
		return nil, fmt.Errorf("copying the blob of %s: %w", l.By, err)
	}
	return m.storedIndex(ctx, l)
}

// storedIndex returns the index of a package from the store, or fault.NotFound.
func (m *Builder) storedIndex(ctx context.Context, l Layer) (*erofs.Index, error) {
	blob, err := m.Store.Open(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blob.Close() }()
	raw, err := pack.ReadIndex(blob, l.Size)
	return openIndex(raw, l, err)
}

// openIndex opens the index that was read from a blob, unless there was an error.
func openIndex(raw []byte, l Layer, err error) (*erofs.Index, error) {
	if err == nil && digest.FromBytes(raw) != l.DiffID {
		err = errOtherIndex
	}
	if err != nil {
		return nil, fmt.Errorf("reading the files of %s: %w", l.By, err)
	}
	x, err := erofs.Open(raw)
	if err == nil && len(x.Devices()) != 1 {
		err = errOtherIndex
	}
	return x, err
}

// addOwn adds the files of the image's own layer that are below the prefix.
func addOwn(ctx context.Context, tree *erofs.Tree, image Image) error {
	raw, done, err := Package{Layer: image.Own}.unpacked(bytes.NewReader(image.OwnBlob))
	if err != nil {
		return err
	}
	defer done()
	return eachFile(ctx, raw, func(name string, h *tar.Header, content io.Reader) error {
		if h.Typeflag == tar.TypeDir {
			return tree.Dir(name)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return tree.Add(name, erofs.Entry{
			Mode: erofs.ModeFile | uint16(h.Mode&0o777), Mtime: h.ModTime.Unix(), Device: erofs.Embedded, Size: uint64(len(data)), Data: data,
		})
	})
}

// addFiles adds those of the environment's own files that are below the prefix.
func (e Environment) addFiles(tree *erofs.Tree, files []ownFile) error {
	for _, f := range files {
		name, ok := strings.CutPrefix(f.name, strings.TrimPrefix(spec.Prefix, "/")+"/")
		if !ok {
			continue
		}
		if err := tree.Dir(path.Dir(name)); err != nil {
			return err
		}
		err := tree.Add(name, erofs.Entry{Mode: erofs.ModeFile | 0o644, Mtime: e.created().Unix(), Device: erofs.Embedded, Size: uint64(len(f.text)), Data: []byte(f.text)})
		if err != nil {
			return err
		}
	}
	return nil
}

// packIndex compresses an index. The result does not depend on the machine.
func packIndex(index []byte) []byte {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err) // the options are valid
	}
	return z.EncodeAll(index, nil)
}

// manifest returns the manifest of the artifact with the subject and the annotations of another one.
func (a Mountable) manifest(m ocispec.Manifest) (oci.Document, error) {
	m.Versioned, m.MediaType, m.ArtifactType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest, environment.Type
	m.Config, m.Layers = describe(a.Config), []ocispec.Descriptor{describe(a.Index)}
	for i, b := range a.Blobs {
		d := b.descriptor()
		d.Annotations = map[string]string{environment.BlobAnnotation: a.ids[i]}
		m.Layers = append(m.Layers, d)
	}
	maps.DeleteFunc(m.Annotations, func(_, v string) bool { return v == "" })
	raw, err := json.Marshal(m)
	return oci.NewDocument(ocispec.MediaTypeImageManifest, raw), err
}

func describe(doc oci.Document) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: doc.MediaType, Digest: doc.Digest, Size: int64(len(doc.Bytes))}
}

// PushMountable pushes the artifact, with the tag of the target if it is named. It returns the number of bytes of blobs that the
// registry did not have, and ErrEvicted if a blob was evicted.
func (m *Builder) PushMountable(ctx context.Context, to Registry, a Mountable, named bool) (sent int64, err error) {
	for _, doc := range []oci.Document{a.Config, a.Index} {
		if err := put(ctx, to, describe(doc), bytes.NewReader(doc.Bytes)); err != nil {
			return 0, err
		}
	}
	g, sending := errgroup.WithContext(ctx)
	g.SetLimit(cmp.Or(m.Concurrency, 2))
	var all atomic.Int64
	for _, b := range a.Blobs {
		g.Go(func() error {
			n, err := m.send(sending, to, b)
			all.Add(n)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return all.Load(), err
	}
	return all.Load(), to.Manifest(ctx, a.Manifest, named)
}

// NoteBlobs records the blobs of a pushed artifact that this worker has built, for other workers.
func (m *Builder) NoteBlobs(ctx context.Context, records []spec.Record, blobs []Package) {
	keys, err := m.blobKeys(records)
	if err != nil {
		return
	}
	m.noteAll(ctx, records, func(i int) (spec.LayerKey, digest.Digest) { return keys[i], blobs[i].Digest })
}

// noteAll records the blobs of packages that were pushed: of returns the key and the digest of the
// blob of a package, or no digest if it was not pushed. Those of other workers are not recorded
// again.
func (m *Builder) noteAll(ctx context.Context, records []spec.Record, of func(which int) (spec.LayerKey, digest.Digest)) {
	if m.Share == nil || m.Scope != "" || m.Share.unavailable.Load() {
		return
	}
	for i, rec := range records {
		key, pushed := of(i)
		if rec.SHA256 == "" || pushed == "" {
			continue
		}
		m.Share.Claims.Note(ctx, m.Share.name(key), func() ([]byte, error) {
			p, err := m.Store.Package(ctx, key)
			if err != nil || p.Digest != pushed {
				return nil, errElsewhere
			}
			return writeRecord(p)
		})
	}
}

// A partReader reads parts of a blob of a registry.
type partReader struct {
	ctx  context.Context //nolint:containedctx // io.ReaderAt has no parameter for it
	from BlobSource
	d    ocispec.Descriptor
}

// ReadAt implements io.ReaderAt.
func (r partReader) ReadAt(p []byte, at int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	in, err := r.from.GetPart(r.ctx, r.d, at, min(int64(len(p)), r.d.Size-at))
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	return io.ReadFull(in, p)
}
