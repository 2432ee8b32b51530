package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/ztoc"
)

// Enable adds a SOCI index to the image with the digest built, which the repository already has, and
// pushes the result with the tag. It reads each large layer once, one at a time. If no layer is large
// enough, the image gets the tag as it is. Enable returns the digest of the tagged document.
func (t *Target) Enable(ctx context.Context, recipe *buildv1.Recipe, built digest.Digest, out jobs.Output) (digest.Digest, error) {
	platform, err := oci.ParsePlatform(recipe.GetPlatform())
	if err != nil {
		return "", err
	}
	documents := t.Registries.Source(t.repo, t.access)
	root, err := documents.Manifest(ctx, built)
	if err != nil {
		return "", err
	}
	image, err := pick(ctx, documents, built, platform)
	if err != nil {
		return "", err
	}
	ztocs, artifacts, err := t.ztocs(ctx, image, recipe.GetSociPrefetch(), out)
	if err != nil {
		return "", err
	}
	if len(ztocs) == 0 {
		out.Print("soci", "The image has no SOCI index: "+soci.NoLayer)
		return root.Digest, t.PutManifest(ctx, t.Ref, root)
	}
	enabled, err := soci.Enable(root, image, platform, ztocs, artifacts...)
	if err != nil {
		return "", err
	}
	if err := t.putIfMissing(ctx, describe(enabled.Config), enabled.Config.Bytes); err != nil {
		return "", err
	}
	for _, a := range enabled.Prefetch {
		if err := t.putIfMissing(ctx, describe(a.Document), a.Document.Bytes); err != nil {
			return "", err
		}
	}
	for _, doc := range []oci.Document{enabled.Index, enabled.Manifest} {
		if err := t.PutManifest(ctx, t.Ref.SetDigest(doc.Digest.String()), doc); err != nil {
			return "", err
		}
	}
	out.Print("", fmt.Sprintf("The SOCI index covers %d layers", len(ztocs)))
	return enabled.Root.Digest, t.PutManifest(ctx, t.Ref, enabled.Root)
}

// ztocs reads the large layers of an image and pushes their zTOCs. If files are prefetched, it reads all
// layers, and returns the prefetch artifacts.
func (t *Target) ztocs(ctx context.Context, image oci.Document, prefetch []string, out jobs.Output) (ztocs []soci.Ztoc, artifacts []soci.Artifact, err error) {
	layers, err := soci.Layers(image)
	if err != nil || len(layers) == 0 {
		return nil, nil, err
	}
	if len(prefetch) > 0 {
		m, err := oci.ParseManifest(image)
		if err != nil {
			return nil, nil, err
		}
		layers = m.Layers
	}
	var files soci.Prefetch
	seen := map[digest.Digest]bool{}
	for i, l := range layers {
		raw, err := t.readLayer(ctx, l, fmt.Sprintf("%d of %d", i+1, len(layers)), out)
		if err != nil {
			return nil, nil, err
		}
		if len(prefetch) > 0 {
			if err := files.Add(l, raw, raw != nil && soci.HasZtoc(l)); err != nil {
				return nil, nil, err
			}
		}
		if raw == nil || !soci.HasZtoc(l) || seen[l.Digest] {
			continue
		}
		seen[l.Digest] = true
		z := soci.Ztoc{Layer: l, Digest: digest.FromBytes(raw), Size: int64(len(raw))}
		if err := t.putIfMissing(ctx, descriptor.Descriptor{MediaType: ztoc.MediaType, Digest: z.Digest, Size: z.Size}, raw); err != nil {
			return nil, nil, err
		}
		ztocs = append(ztocs, z)
	}
	if len(prefetch) == 0 || len(ztocs) == 0 {
		return ztocs, nil, nil
	}
	found, err := files.Resolve(prefetch)
	for _, line := range found.Log() {
		out.Print("soci", line)
	}
	return ztocs, found.Artifacts, err
}

// readLayer returns the zTOC of a layer, or nil if it can have none, as the build's log then states.
func (t *Target) readLayer(ctx context.Context, l ocispec.Descriptor, which string, out jobs.Output) ([]byte, error) {
	if !soci.CanList(l) {
		return nil, nil // the caller reports it, if it matters
	}
	out.Print("soci", fmt.Sprintf("%s: reading the layer %s, %d bytes", which, l.Digest, l.Size))
	raw, err := t.ztoc(ctx, l)
	if !errors.Is(err, ztoc.ErrInvalid) {
		return raw, err
	}
	if soci.HasZtoc(l) {
		out.Print("", fmt.Sprintf("The layer %s is not in the SOCI index and is downloaded as a whole: %s", l.Digest, fault.Clip(err.Error(), limits.ZtocReason)))
	}
	return nil, nil
}

// ztoc reads a layer of the target and returns its zTOC.
func (t *Target) ztoc(ctx context.Context, l ocispec.Descriptor) ([]byte, error) {
	content, err := t.Registries.ReadBlob(ctx, t.repo, l.Digest, t.access, 0, l.Size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	checked, err := NewVerifier(content, l.Digest.String(), l.Size)
	if err != nil {
		return nil, err
	}
	return soci.Read(l, &untilEnd{checked, content, "A layer of the image"})
}

// putIfMissing pushes a blob unless the repository has it.
func (t *Target) putIfMissing(ctx context.Context, d descriptor.Descriptor, content []byte) error {
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		return there.Close()
	}
	return t.PutBlob(ctx, d, bytes.NewReader(content))
}
