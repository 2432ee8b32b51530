package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/manifest"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
)

const (
	// typeFirsts is the type of artifacts with what commands read first of an environment, which is their subject.
	typeFirsts = "application/vnd.slipway.firsts.v1"
	// typeFirstsList is the media type of their layer.
	typeFirstsList = "application/vnd.slipway.firsts.list.v1+json"
)

// pushFirsts pushes the record of the environment to the registry of its image, and prints the digest of the artifact.
func (l *launch) pushFirsts(ctx context.Context, index string) error {
	if isIssued(l.name.Image) {
		return errors.New("the record cannot be pushed to a name that a server issued; request a permanent name with --freeze")
	}
	list, err := cache.EncodeFirsts(l.cache.Firsts(index))
	if err != nil {
		return fmt.Errorf("pushing the record: %w", err)
	}
	r, err := newRegistry(l.name.Image, l.connection)
	if err != nil {
		return err
	}
	empty := ocispec.DescriptorEmptyJSON
	layer := ocispec.Descriptor{MediaType: typeFirstsList, Digest: digest.FromBytes(list), Size: int64(len(list))}
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(l.name.Environment), Size: int64(len(l.manifest))}
	raw, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: typeFirsts, Config: empty,
		Layers: []ocispec.Descriptor{layer}, Subject: &subject,
	})
	if err != nil {
		return fmt.Errorf("pushing the record: %w", err)
	}
	for _, one := range []struct {
		d       ocispec.Descriptor
		content []byte
	}{{empty, empty.Data}, {layer, list}} {
		d := descriptor.Descriptor{MediaType: one.d.MediaType, Digest: one.d.Digest, Size: one.d.Size}
		if _, err := r.client.BlobPut(ctx, r.at, d, bytes.NewReader(one.content)); err != nil {
			return fmt.Errorf("pushing the record: %w", err)
		}
	}
	m, err := manifest.New(manifest.WithRaw(raw), manifest.WithDesc(descriptor.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(raw), Size: int64(len(raw))}))
	if err == nil {
		err = r.client.ManifestPut(ctx, r.at.SetDigest(digest.FromBytes(raw).String()), m)
	}
	if err != nil {
		return fmt.Errorf("pushing the record: %w", err)
	}
	fmt.Fprintf(l.stderr, "slipway: pushed the record as %s\n", r.at.SetDigest(digest.FromBytes(raw).String()).CommonName())
	return nil
}

// firsts adds the record of what commands read first, which refers to an environment at its registry, to that of the cache. It is only a hint: an error
// is not one of the command.
func (r *registry) firsts(ctx context.Context, c *cache.Cache, found string) error {
	list, err := r.client.ReferrerList(ctx, r.at.SetDigest(found))
	if err != nil {
		return fmt.Errorf("looking up what commands read first: %w", err)
	}
	if len(list.Descriptors) > limits.Referrers {
		return fmt.Errorf("more than %d manifests refer to the environment", limits.Referrers)
	}
	for _, one := range list.Descriptors {
		if one.ArtifactType != typeFirsts {
			continue
		}
		if err := r.addFirsts(ctx, c, found, one.Digest.String()); err != nil {
			return fmt.Errorf("reading what commands read first: %w", err)
		}
	}
	return nil
}

// addFirsts adds the record of an artifact.
func (r *registry) addFirsts(ctx context.Context, c *cache.Cache, found, artifact string) error {
	raw, _, err := r.manifest(ctx, r.at.SetDigest(artifact))
	if err != nil {
		return err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.ArtifactType != typeFirsts || len(m.Layers) != 1 || m.Subject == nil || m.Subject.Digest.String() != found {
		return fmt.Errorf("the artifact %s is malformed", artifact)
	}
	l := m.Layers[0]
	text, err := r.document(ctx, descriptor.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}, limits.MountFirstsBytes)
	if err != nil {
		return err
	}
	list, err := cache.ParseFirsts(text)
	if err != nil {
		return err
	}
	described, err := c.Document(found)
	if err != nil {
		return err
	}
	a, err := environment.Parse(described)
	if err != nil {
		return err
	}
	c.AddFirsts(a.Index.Digest.String(), list)
	return nil
}
