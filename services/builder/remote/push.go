package remote

import (
	"context"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/oci"
)

// Push pushes the config first, so that a registry which rejects pushes fails early. The
// manifest is pushed last. It gets the tag unless a SOCI index follows.
func (t *Target) Push(ctx context.Context, from *Source, image oci.Image, job jobs.Job, out jobs.Output) error {
	if err := t.PutDocument(ctx, image.Config); err != nil {
		return err
	}
	for _, l := range from.Layers {
		if IsForeign(l) {
			out.Print("", fmt.Sprintf("%s is not copied: it is a foreign layer", l.Digest))
			continue
		}
		how, err := t.Copy(ctx, from, l)
		if err != nil {
			return err
		}
		out.Print("", fmt.Sprintf("%s %s, %d bytes", l.Digest, how, l.Size))
	}
	platform, err := oci.ParsePlatform(job.Recipe.GetPlatform())
	if err != nil {
		return err
	}
	if err := t.AddLayers(ctx, job.Recipe.GetConfig(), platform); err != nil {
		return err
	}
	name := t.Ref
	if job.Recipe.GetSoci() {
		name = name.SetDigest(image.Manifest.Digest.String())
	}
	return t.PutManifest(ctx, name, image.Manifest)
}

// A CopyKind is how the target's registry got a blob.
type CopyKind string

// Kinds of copies.
const (
	Existed CopyKind = "exists"
	Mounted CopyKind = "was mounted"
	Copied  CopyKind = "was copied"
)

// A SourceError is the error of the source of a copy, as opposed to its target.
type SourceError struct{ Err error }

// Error implements error.
func (e *SourceError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the registry.
func (e *SourceError) Unwrap() error { return e.Err }

// Copy copies a layer of an image to the target's repository, unless it exists there.
func (t *Target) Copy(ctx context.Context, from *Source, l ocispec.Descriptor) (CopyKind, error) {
	return t.copy(ctx, from.Repository, l, from.Open)
}

// CopyVerified copies a blob, like Copy, and verifies its content.
func (t *Target) CopyVerified(ctx context.Context, from *Repository, b ocispec.Descriptor) (CopyKind, error) {
	return t.copy(ctx, from, b, from.OpenVerified)
}

func (t *Target) copy(ctx context.Context, from *Repository, b ocispec.Descriptor, open func(context.Context, ocispec.Descriptor) (io.ReadCloser, error)) (CopyKind, error) {
	if how := t.has(ctx, from, b); how != "" {
		return how, nil
	}
	content, err := open(ctx, b)
	if err != nil {
		return "", &SourceError{err}
	}
	defer content.Close()
	return Copied, t.PutBlob(ctx, BlobOf(b), content)
}

// has returns how the target's repository has got a blob without a copy, or "".
func (t *Target) has(ctx context.Context, from *Repository, b ocispec.Descriptor) CopyKind {
	d := BlobOf(b)
	if there, err := t.Client.BlobHead(ctx, t.Ref, d); err == nil {
		_ = there.Close()
		return Existed
	}
	if from.at.Host == t.repo.Host && t.Client.BlobMount(ctx, from.ref, t.Ref, d) == nil {
		return Mounted
	}
	return ""
}

// Complete applies the recipe's configuration to the image with the digest built, which the
// repository already has, and pushes the result: layers first, then the root. The root gets the tag
// unless a SOCI index follows. Complete returns the digest of the root.
func (t *Target) Complete(ctx context.Context, recipe *buildv1.Recipe, built digest.Digest) (digest.Digest, error) {
	root, err := t.Registries.Manifest(ctx, t.repo, built.String(), t.access)
	if err != nil {
		return "", err
	}
	platform, err := oci.ParsePlatform(recipe.GetPlatform())
	if err != nil {
		return "", err
	}
	config := recipe.GetConfig()
	made, err := oci.Augment(ctx, t.Registries.Source(t.repo, t.access), root, oci.NewAugmentation(config), platform)
	if err != nil {
		return "", err
	}
	if err := t.AddLayers(ctx, config, platform); err != nil {
		return "", err
	}
	for _, img := range made.Images {
		if err := t.PutDocument(ctx, img.Config); err != nil {
			return "", err
		}
		if img.Manifest.Digest == made.Root.Digest {
			continue
		}
		if err := t.PutManifest(ctx, t.Ref.SetDigest(img.Manifest.Digest.String()), img.Manifest); err != nil {
			return "", err
		}
	}
	name := t.Ref
	if recipe.GetSoci() {
		name = name.SetDigest(made.Root.Digest.String())
	}
	return made.Root.Digest, t.PutManifest(ctx, name, made.Root)
}
