package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// artifactManifest is the type of manifests of an early draft of OCI 1.1.
const artifactManifest = "application/vnd.oci.artifact.manifest.v1+json"

// errLimit is the cause of faults for images that exceed a limit.
var errLimit = errors.New("a limit of mirrors")

// An image is everything that a mirror copies.
type image struct {
	root digest.Digest
	// manifests are the manifests and indexes. What a document refers to is before it. The last
	// one is the root, after its referrers.
	manifests []oci.Document
	// blobs are the configurations and layers, without duplicates and annotations.
	blobs []ocispec.Descriptor
	// tags are the tags of signatures, attestations and SBOMs that were attached by a tag.
	tags map[string]digest.Digest
	// foreign is the number of layers that registries do not distribute, and unreadable the
	// number of referrers that do not exist or have an unknown type.
	foreign, unreadable int
}

func (i *image) size() (bytes int64) {
	for _, b := range i.blobs {
		bytes += b.Size
	}
	return bytes
}

func (i *image) summary() string {
	text := fmt.Sprintf("%d manifests and %d blobs of %d bytes", len(i.manifests), len(i.blobs), i.size())
	if i.foreign > 0 {
		text += fmt.Sprintf("; %d foreign layers are not copied", i.foreign)
	}
	if i.unreadable > 0 {
		text += fmt.Sprintf("; %d referrers are not copied: they do not exist or have an unknown type", i.unreadable)
	}
	return text
}

// readImage reads the manifests of an image and of everything that refers to it.
func readImage(ctx context.Context, from *remote.Repository, root string) (*image, error) {
	r := &reader{
		from: from, image: &image{root: digest.Digest(root), tags: map[string]digest.Digest{}}, seen: map[digest.Digest]bool{}, blobs: map[digest.Digest]bool{},
	}
	return r.image, r.manifest(ctx, r.image.root, 0)
}

// A reader collects the parts of an image.
type reader struct {
	from  *remote.Repository
	image *image
	seen  map[digest.Digest]bool // manifests
	blobs map[digest.Digest]bool
	bytes int // of the manifests
}

// manifest reads a manifest or an index with all that it refers to, and its referrers. depth is the
// number of documents that lead to it.
func (r *reader) manifest(ctx context.Context, d digest.Digest, depth int) error {
	if r.seen[d] {
		return nil
	}
	r.seen[d] = true
	if err := d.Validate(); err != nil {
		return fault.Invalid.New("it refers to a malformed digest", err)
	}
	if depth > limits.MirrorDepth {
		return fault.Invalid.New(fmt.Sprintf("its indexes and referrers are nested more than %d deep", limits.MirrorDepth), errLimit)
	}
	doc, err := r.from.Manifest(ctx, d)
	if err != nil {
		return err
	}
	if r.bytes += len(doc.Bytes); len(r.image.manifests) == limits.MirrorManifests || r.bytes > limits.MirrorDocuments {
		return fault.Invalid.New(fmt.Sprintf("it has too many manifests; the limits are %d manifests and %d MiB", limits.MirrorManifests, limits.MirrorDocuments>>20), errLimit)
	}
	if oci.IsIndex(doc.MediaType) {
		err = r.entries(ctx, doc, depth)
	} else {
		err = r.contents(doc)
	}
	if err != nil {
		return err
	}
	if err := r.referrers(ctx, d, depth); err != nil {
		return err
	}
	if err := r.attached(ctx, d, depth); err != nil {
		return err
	}
	r.image.manifests = append(r.image.manifests, doc)
	return nil
}

// entries reads the entries of an index. An entry that is no manifest is a blob.
func (r *reader) entries(ctx context.Context, doc oci.Document, depth int) error {
	index, err := oci.ParseIndex(doc)
	if err != nil {
		return err
	}
	for _, e := range index.Manifests {
		if !oci.IsIndex(e.MediaType) && !oci.IsManifest(e.MediaType) && e.MediaType != artifactManifest {
			err = r.blob(e)
		} else {
			err = r.manifest(ctx, e.Digest, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contents adds the blobs of a manifest.
func (r *reader) contents(doc oci.Document) error {
	if !oci.IsManifest(doc.MediaType) {
		return fault.Invalid.Newf("%s has the type %s, which cannot be copied", doc.Digest, fault.Clip(doc.MediaType, 100))
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return err
	}
	for _, b := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if remote.IsForeign(b) {
			r.image.foreign++
		} else if err := r.blob(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) blob(b ocispec.Descriptor) error {
	if r.blobs[b.Digest] {
		return nil
	}
	r.blobs[b.Digest] = true
	if len(r.image.blobs) == limits.ImageBlobs {
		return fault.Invalid.New(fmt.Sprintf("it has more than %d blobs", limits.ImageBlobs), errLimit)
	}
	r.image.blobs = append(r.image.blobs, ocispec.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size})
	return nil
}

// referrers reads the manifests whose subject is a manifest.
func (r *reader) referrers(ctx context.Context, d digest.Digest, depth int) error {
	list, err := r.from.Referrers(ctx, d)
	if err != nil {
		return err
	}
	for _, ref := range list {
		if _, err := r.referrer(ctx, ref.Digest, depth); err != nil {
			return err
		}
	}
	return nil
}

// referrer reads a manifest that refers to another one, and reports whether it can be copied. A
// list may have referrers that do not exist, and must not make the image itself impossible to copy.
func (r *reader) referrer(ctx context.Context, d digest.Digest, depth int) (bool, error) {
	err := r.manifest(ctx, d, depth+1)
	if errors.Is(err, fault.NotFound) || errors.Is(err, fault.Invalid) && !errors.Is(err, errLimit) {
		r.image.unreadable++
		return false, nil
	}
	return err == nil, err
}

// attached reads what cosign has attached to a manifest by a tag, such as sha256-….sig.
func (r *reader) attached(ctx context.Context, d digest.Digest, depth int) error {
	for _, kind := range []string{"sig", "att", "sbom"} {
		tag := d.Algorithm().String() + "-" + d.Encoded() + "." + kind
		to, err := r.from.Resolve(ctx, tag)
		if errors.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		ok, err := r.referrer(ctx, to, depth)
		if err != nil {
			return err
		}
		if ok {
			r.image.tags[tag] = to
		}
	}
	return nil
}
