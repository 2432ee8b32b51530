package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/awslabs/soci-snapshotter/soci"
	"github.com/awslabs/soci-snapshotter/soci/store"
	"github.com/awslabs/soci-snapshotter/ztoc"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
)

// layout is a folder with an OCI layout.
type layout string

func (l layout) path(d digest.Digest) string {
	return filepath.Join(string(l), "blobs", d.Algorithm().String(), d.Encoded())
}

// document decodes a document, and returns its descriptor.
func (l layout) document(d digest.Digest, v any) (ocispec.Descriptor, error) {
	if err := d.Validate(); err != nil {
		return ocispec.Descriptor{}, err
	}
	raw, err := os.ReadFile(l.path(d))
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if digest.FromBytes(raw) != d {
		return ocispec.Descriptor{}, fmt.Errorf("%s has other content", d)
	}
	var kind struct{ MediaType string }
	err = errors.Join(json.Unmarshal(raw, &kind), json.Unmarshal(raw, v))
	return ocispec.Descriptor{MediaType: kind.MediaType, Digest: d, Size: int64(len(raw))}, err
}

func convert(folder, of, platform, tool string, prefetch []string) error {
	ctx, l := context.Background(), layout(folder)
	var content map[string]any
	target, err := l.document(digest.Digest(of), &content)
	if err != nil {
		return err
	}
	p, err := platforms.Parse(platform)
	if err != nil {
		return err
	}
	contents, err := local.NewStore(folder)
	if err != nil {
		return err
	}
	blobs, err := oci.New(folder)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "soci-judge-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	db, err := soci.NewDB(soci.ArtifactsDbPath(state))
	if err != nil {
		return err
	}
	out := os.Stdout
	os.Stdout = os.Stderr // the library prints its progress
	builder, err := soci.NewIndexBuilder(contents, &store.SociStore{Store: blobs}, soci.WithArtifactsDb(db), soci.WithBuildToolIdentifier(tool), soci.WithPrefetchPaths(prefetch))
	if err != nil {
		return err
	}
	made, err := builder.Convert(ctx, images.Image{Name: "judged", Target: target}, soci.ConvertWithPlatforms(p))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, made.Digest)
	return err
}

func image(folder, root, count, seed string) error {
	l := layout(folder)
	var index ocispec.Index
	if _, err := l.document(digest.Digest(root), &index); err != nil {
		return err
	}
	found := 0
	for _, e := range index.Manifests {
		if e.ArtifactType == soci.SociIndexArtifactTypeV2 {
			continue
		}
		var m ocispec.Manifest
		if _, err := l.document(e.Digest, &m); err != nil {
			return err
		}
		if err := l.indexed(index, e, m, count, seed); err != nil {
			return fmt.Errorf("%s: %w", platforms.Format(*e.Platform), err)
		}
		found++
	}
	if found == 0 {
		return errors.New("the index has no image")
	}
	return nil
}

// indexed checks the SOCI index of one image.
func (l layout) indexed(all ocispec.Index, e ocispec.Descriptor, m ocispec.Manifest, count, seed string) error {
	at := digest.Digest(m.Annotations[soci.ImageAnnotationSociIndexDigest])
	isListed := false
	for _, other := range all.Manifests {
		isListed = isListed || other.Digest == at && other.ArtifactType == soci.SociIndexArtifactTypeV2 &&
			other.Annotations[soci.IndexAnnotationImageManifestDigest] == e.Digest.String() && platforms.Only(*e.Platform).Match(*other.Platform)
	}
	if !isListed {
		return fmt.Errorf("the index does not list the SOCI index %q of its image", at)
	}
	var content map[string]any
	if _, err := l.document(at, &content); err != nil {
		return err
	}
	raw, err := os.Open(l.path(at))
	if err != nil {
		return err
	}
	var index soci.Index
	if err := soci.DecodeIndex(raw, &index); err != nil {
		return err
	}
	if index.ArtifactType != soci.SociIndexArtifactTypeV2 || len(index.Blobs) == 0 {
		return fmt.Errorf("the SOCI index has the type %s and %d zTOCs", index.ArtifactType, len(index.Blobs))
	}
	for _, z := range index.Blobs {
		if z.MediaType == soci.SociPrefetchMediaType {
			if err := l.prefetch(index, z); err != nil {
				return fmt.Errorf("prefetch artifact %s: %w", z.Digest, err)
			}
			continue
		}
		if err := l.layer(m, z, count, seed); err != nil {
			return fmt.Errorf("zTOC %s: %w", z.Digest, err)
		}
	}
	return nil
}

// prefetch checks the prefetch artifact of a layer.
func (l layout) prefetch(index soci.Index, p ocispec.Descriptor) error {
	of := p.Annotations[soci.IndexAnnotationImageLayerDigest]
	for _, z := range index.Blobs {
		if z.MediaType != soci.SociLayerMediaType || z.Annotations[soci.IndexAnnotationImageLayerDigest] != of {
			continue
		}
		in, err := os.Open(l.path(p.Digest))
		if err != nil {
			return err
		}
		defer in.Close()
		artifact, err := soci.UnmarshalPrefetchArtifact(in)
		if err != nil {
			return err
		}
		from, err := os.Open(l.path(z.Digest))
		if err != nil {
			return err
		}
		defer from.Close()
		toc, err := ztoc.Unmarshal(from)
		if err != nil {
			return err
		}
		for _, s := range artifact.PrefetchSpans {
			if s.StartSpan < 0 || s.StartSpan > s.EndSpan || s.EndSpan > toc.MaxSpanID {
				return fmt.Errorf("the range %d to %d is not of the %d spans", s.StartSpan, s.EndSpan, toc.MaxSpanID+1)
			}
			fmt.Printf("prefetch %s: %d to %d\n", of, s.StartSpan, s.EndSpan)
		}
		return nil
	}
	return fmt.Errorf("the layer %q has no zTOC", of)
}

// layer checks the zTOC of a layer.
func (l layout) layer(m ocispec.Manifest, z ocispec.Descriptor, count, seed string) error {
	of := digest.Digest(z.Annotations[soci.IndexAnnotationImageLayerDigest])
	isLayer := false
	for _, d := range m.Layers {
		isLayer = isLayer || d.Digest == of && d.MediaType == z.Annotations[soci.IndexAnnotationImageLayerMediaType]
	}
	if !isLayer {
		return fmt.Errorf("%q is no layer of the image", of)
	}
	in, err := os.Open(l.path(of))
	if err != nil {
		return err
	}
	defer in.Close()
	plain, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	tarball, err := os.CreateTemp("", "soci-judge-")
	if err != nil {
		return err
	}
	defer os.Remove(tarball.Name())
	if _, err := io.Copy(tarball, plain); err != nil {
		return err
	}
	if err := tarball.Close(); err != nil {
		return err
	}
	return ranges(l.path(of), l.path(z.Digest), tarball.Name(), count, seed)
}
