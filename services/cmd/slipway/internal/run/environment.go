package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/descriptor"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
)

// parseArtifact parses the manifest and the config of an environment.
func parseArtifact(manifest, config []byte) (environment.Artifact, environment.Config, error) {
	a, err := environment.Parse(manifest)
	if err != nil {
		return a, environment.Config{}, err
	}
	if len(a.Blobs) > limits.MountPackages {
		return a, environment.Config{}, fmt.Errorf("the environment has more than %d packages", limits.MountPackages)
	}
	c, err := environment.ParseConfig(config)
	return a, c, err
}

// An opened environment can be mounted.
type opened struct {
	index *erofs.Index
	// path is the file of the index in the cache; "" for none.
	path  string
	files *cache.Environment
	cache *cache.Cache
	// sources are where packages are fetched from; nil for nowhere.
	sources *sources
	// digest is that of the compressed index.
	digest string
}

// open opens an environment. What the cache lacks is fetched from sources, which is nil for no fetching.
func open(ctx context.Context, c *cache.Cache, from *sources, manifest, config []byte) (*opened, error) {
	a, described, err := parseArtifact(manifest, config)
	if err != nil {
		return nil, err
	}
	index, path, err := c.Index(a.Index.Digest.String(), described.Index.String(), func() ([]byte, error) {
		if from == nil {
			return nil, fmt.Errorf("the index of the environment is %w, and --offline is set", cache.ErrMissing)
		}
		return from.document(ctx, descriptor.Descriptor{MediaType: environment.TypeIndex, Digest: a.Index.Digest, Size: a.Index.Size}, limits.MountIndex)
	})
	if err != nil {
		return nil, fmt.Errorf("opening the index of the environment: %w", err)
	}
	blobs := map[[32]byte]cache.Blob{}
	for _, d := range index.Devices() {
		b, ok := a.Blobs[d.Name()]
		if !ok {
			return nil, fmt.Errorf("the environment lacks the package %s of its index", d.Name())
		}
		blobs[d.ID] = cache.Blob{Digest: b.Digest.String(), Size: b.Size}
	}
	var source cache.Source
	if from != nil {
		source = from
	}
	files, err := c.Environment(ctx, index, blobs, source)
	if err != nil {
		return nil, err
	}
	return &opened{index: index, path: path, files: files, cache: c, sources: from, digest: a.Index.Digest.String()}, nil
}

// errNone is returned for an image without an environment.
var errNone = errors.New("the image has no environment that can be mounted; request it again with this version of the server, or run it with a container engine")

// errOther is returned for an image or environment that is not the one that the server has made.
var errOther = errors.New("the registry returned another image than the server has made")

// find looks up an image and its environment at its registry, and stores their documents in the cache. They must be those that the server has made, if
// it is known. If whole is set, the image may have no environment.
func (r *registry) find(ctx context.Context, c *cache.Cache, want requested, whole bool) (cache.Name, error) {
	found := cache.Name{Image: r.at.CommonName()}
	raw, d, err := r.manifest(ctx, r.at)
	if err != nil {
		return found, err
	}
	if found.ImageDigest, raw, err = r.platform(ctx, d, raw); err != nil {
		return found, err
	}
	if want.digest != "" && want.digest != d && want.digest != found.ImageDigest {
		return found, fmt.Errorf("%w: its digest is %s instead of %s", errOther, found.ImageDigest, want.digest)
	}
	c.AddDocument(found.ImageDigest, raw)
	if found.Environment, err = r.environment(ctx, c, found.ImageDigest, raw, want.made); errors.Is(err, errNone) && whole {
		err = nil
	}
	if err == nil && want.made != "" && found.Environment != want.made {
		err = fmt.Errorf("%w: its environment is %q instead of %q", errOther, found.Environment, want.made)
	}
	return found, err
}

// environment returns the digest of the environment of an image, or errNone. It stores the documents of the environment and the config of the
// image in the cache.
func (r *registry) environment(ctx context.Context, c *cache.Cache, image string, raw []byte, made string) (string, error) {
	if a, err := environment.Parse(raw); err == nil { // the name is that of an environment
		return image, r.describe(ctx, c, a)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err == nil && isSingularity(m) {
		return "", errNone
	}
	if err := r.config(ctx, c, raw); err != nil {
		return "", err
	}
	return r.referrer(ctx, c, image, made)
}

// manifest returns a manifest and its digest, which is verified.
func (r *registry) manifest(ctx context.Context, at ref.Ref) ([]byte, string, error) {
	m, err := r.client.ManifestGet(ctx, at)
	if err != nil {
		return nil, "", fmt.Errorf("looking up %s: %w", at.CommonName(), err)
	}
	raw, err := m.RawBody()
	if err != nil {
		return nil, "", fmt.Errorf("reading the manifest of %s: %w", at.CommonName(), err)
	}
	want := m.GetDescriptor().Digest
	if at.Digest != "" {
		want = digest.Digest(at.Digest)
	}
	return raw, want.String(), verifyDigest(raw, want)
}

// platform returns the manifest for this machine of an image with several platforms.
func (r *registry) platform(ctx context.Context, d string, raw []byte) (string, []byte, error) {
	var index ocispec.Index
	if err := json.Unmarshal(raw, &index); err != nil {
		return "", nil, fmt.Errorf("the manifest of the image is not JSON: %w", err)
	}
	if len(index.Manifests) == 0 {
		return d, raw, nil
	}
	for _, one := range index.Manifests[:min(len(index.Manifests), limits.IndexEntries)] {
		if one.Platform != nil && one.Platform.OS == "linux" && one.Platform.Architecture == runtime.GOARCH {
			raw, got, err := r.manifest(ctx, r.at.SetDigest(one.Digest.String()))
			return got, raw, err
		}
	}
	return "", nil, fmt.Errorf("the image has no manifest for linux/%s", runtime.GOARCH)
}

// config stores the config of an image in the cache, unless the cache has it, as that of an image with another name.
func (r *registry) config(ctx context.Context, c *cache.Cache, raw []byte) error {
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("the manifest of the image is not JSON: %w", err)
	}
	if _, err := c.Document(m.Config.Digest.String()); err == nil {
		return nil
	}
	b, err := r.document(ctx, descriptor.Descriptor{MediaType: m.Config.MediaType, Digest: m.Config.Digest, Size: m.Config.Size}, limits.Document)
	if err != nil {
		return fmt.Errorf("reading the config of the image: %w", err)
	}
	c.AddDocument(m.Config.Digest.String(), b)
	return nil
}

// describe stores the config of an environment in the cache, unless the cache has it.
func (r *registry) describe(ctx context.Context, c *cache.Cache, a environment.Artifact) error {
	if _, err := c.Document(a.Config.Digest.String()); err == nil {
		return nil
	}
	b, err := r.document(ctx, descriptor.Descriptor{MediaType: a.Config.MediaType, Digest: a.Config.Digest, Size: a.Config.Size}, limits.MountConfig)
	if err != nil {
		return fmt.Errorf("reading the config of the environment: %w", err)
	}
	c.AddDocument(a.Config.Digest.String(), b)
	return nil
}

// referrer returns the digest of the environment of an image, and stores its manifest.
func (r *registry) referrer(ctx context.Context, c *cache.Cache, image, made string) (string, error) {
	list, err := r.client.ReferrerList(ctx, r.at.SetDigest(image))
	if err != nil {
		return "", fmt.Errorf("looking up the environment of the image: %w", err)
	}
	if len(list.Descriptors) > limits.Referrers {
		return "", fmt.Errorf("more than %d manifests refer to the image", limits.Referrers)
	}
	for _, one := range list.Descriptors {
		if one.ArtifactType != environment.Type || made != "" && one.Digest.String() != made {
			continue
		}
		d := one.Digest.String()
		raw, err := c.Document(d)
		if err != nil {
			if raw, d, err = r.manifest(ctx, r.at.SetDigest(d)); err != nil {
				return "", err
			}
		}
		a, err := environment.Parse(raw)
		if err != nil {
			return "", err
		}
		if a.Subject.String() != image {
			return "", fmt.Errorf("the environment %s is that of another image", d)
		}
		c.AddDocument(d, raw)
		return d, r.describe(ctx, c, a)
	}
	return "", errNone
}
