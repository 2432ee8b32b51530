package sif

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/pieces"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/builder/sif"
	"slipway.dev/services/builder/squashfs"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// push pushes a Singularity image as an ORAS artifact. The manifest does not identify the
// build, so that the same content has the same digest.
func (s *Engine) push(ctx context.Context, out jobs.Output, t *remote.Target, file sif.File, contentDigest string) (digest.Digest, error) {
	if err := s.pushFile(ctx, out, t, file); err != nil {
		return "", err
	}
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: sif.TypeConfig, Digest: emptyConfig.Digest, Size: int64(len(emptyConfig.Bytes))},
		Layers: []ocispec.Descriptor{{
			MediaType: sif.TypeLayer, Digest: file.Digest, Size: file.Size(),
			Annotations: map[string]string{ocispec.AnnotationTitle: "image.sif"},
		}},
		Annotations: map[string]string{"dev.slipway.content-digest": contentDigest},
	})
	if err != nil {
		return "", err
	}
	doc := oci.NewDocument(ocispec.MediaTypeImageManifest, raw)
	return doc.Digest, t.PutManifest(ctx, t.Ref, doc)
}

// pushFile pushes the file, unless the repository has it. The embedded image store gets the parts, of
// which it has those of similar images.
func (s *Engine) pushFile(ctx context.Context, out jobs.Output, t *remote.Target, file sif.File) error {
	d := descriptor.Descriptor{MediaType: sif.TypeLayer, Digest: file.Digest, Size: file.Size()}
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		return there.Close()
	}
	if s.o.Store != "" && t.Host() == s.o.Store {
		done, err := pushParts(ctx, t, file)
		if done && err == nil || ctx.Err() != nil {
			return err
		}
		if err != nil {
			out.Print("", "The image could not be stored as its parts, and is pushed as a file")
		}
	}
	return t.PutBlob(ctx, d, file.Reader())
}

// pushParts pushes the parts of a file and a list of them. It returns false if the file has to be pushed
// instead, because it is too small or has too many parts.
func pushParts(ctx context.Context, t *remote.Target, file sif.File) (done bool, err error) {
	sections, own := file.Sections()
	if len(sections) > limits.CompositionPieces || file.Size() < limits.ComposedLeast {
		return false, nil
	}
	rest, err := describeOwn(own)
	if err != nil {
		return false, err
	}
	g, pushing := errgroup.WithContext(ctx)
	g.SetLimit(concurrentPushes)
	put := func(d descriptor.Descriptor, content io.Reader) {
		g.Go(func() error { return t.PutBlobOnce(pushing, d, content) })
	}
	put(rest, io.NewSectionReader(own, 0, own.Size()))
	c, parts := oci.Composition{MediaType: oci.TypeComposition}, map[*squashfs.Part]digest.Digest{nil: rest.Digest}
	for _, s := range sections {
		if _, ok := parts[s.Part]; !ok {
			blocks, sum := s.Part.Blocks()
			d := descriptor.Descriptor{MediaType: mediaTypePart, Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: blocks.Size()}
			parts[s.Part] = d.Digest
			put(d, blocks)
		}
		c.Pieces = append(c.Pieces, oci.Piece{Digest: parts[s.Part], Offset: s.Offset, Length: s.Length})
	}
	if err := g.Wait(); err != nil {
		return false, fmt.Errorf("pushing the parts: %w", err)
	}
	return true, t.PutComposition(ctx, file.Digest, c)
}

// concurrentPushes is how many parts are looked up or pushed at a time.
const concurrentPushes = 4

// mediaTypePart is the type of blobs that are not listed in manifests.
const mediaTypePart = "application/octet-stream"

// describeOwn returns the descriptor of the bytes that only one image has.
func describeOwn(own *pieces.File) (descriptor.Descriptor, error) {
	d := digest.SHA256.Digester()
	_, err := io.Copy(d.Hash(), io.NewSectionReader(own, 0, own.Size()))
	return descriptor.Descriptor{MediaType: mediaTypePart, Digest: d.Digest(), Size: own.Size()}, err
}
