// Package sources looks up the images that requests name with the caller's own login.
package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/upstream"
)

// Sources looks up the images that requests name with the caller's own login, and caches
// the results for each caller.
type Sources struct {
	client *upstream.Client
	// reads reads images of other registries, and direct those that builds have pushed.
	reads, direct *pullthrough.Reader
	keychain      *caller.Keychain
	known         *memo.Memo[sourceKey, digest.Digest]
	included      *memo.Memo[includedKey, []oci.Layer]
	augmented     *memo.Memo[augmentedKey, map[digest.Digest]digest.Digest]
}

// An includedKey identifies an included image by digest and platform.
type includedKey struct {
	sourceKey
	platform string
}

type sourceKey struct {
	access upstream.Access
	image  oci.Reference
	// built reports whether a build has pushed the image.
	built bool
}

// An Inclusion is an included image with its current digest and the access to read it.
type Inclusion struct {
	Field string
	// Image is the reference in the request. Source is its actual location, by digest.
	Image, Source oci.Reference
	Access        upstream.Access
	Identity      *platformv1.Identity
	BuildID       string
	// Above lists the layers that an earlier request added to the image, and Platforms the
	// platforms of that request; "" for all.
	Above     []*containerv1.Layer
	Platforms string
	// Layers lists its own layers and those above.
	Layers []*containerv1.Layer
	// Until is when the image name expires that authorizes access; zero for never.
	Until time.Time
}

// sourceTTL is how long a lookup is cached, since a pipeline requests the same image for
// thousands of tasks.
const sourceTTL = time.Minute

// augmentedTTL is how long the digests of an augmented image are cached.
const augmentedTTL = 10 * time.Minute

// includedMemory is the approximate maximum memory of cached layers of included images, in
// bytes.
const includedMemory = 16 << 20

// New returns Sources with an empty cache.
func New(client *upstream.Client, reads *pullthrough.Reader, keychain *caller.Keychain) *Sources {
	return &Sources{
		client: client, reads: reads, direct: pullthrough.Direct(client), keychain: keychain,
		known: memo.New(memo.Options[sourceKey, digest.Digest]{
			Most: 20_000,
			Age:  sourceTTL,
		}),
		augmented: memo.New(memo.Options[augmentedKey, map[digest.Digest]digest.Digest]{
			Most: 5_000,
			Age:  augmentedTTL,
		}),
		included: memo.New(memo.Options[includedKey, []oci.Layer]{
			Weight: includedMemory,
			Age:    sourceTTL,
			Weigh:  func(_ includedKey, layers []oci.Layer) uint32 { return uint32(512 * (len(layers) + 1)) },
		}),
	}
}

// Resolve returns the current digest of an image. It returns fault.Invalid with the field
// and the image if the caller cannot read it
// (gateway/contract/container-service.md#source-images).
func (s *Sources) Resolve(ctx context.Context, who caller.ID, field string, image oci.Reference) (digest.Digest, upstream.Access, error) {
	access, err := s.keychain.Access(ctx, who, image.Registry, image.Repository)
	if err != nil {
		return "", access, err
	}
	d, err := s.digest(ctx, sourceKey{access: access, image: image})
	if err != nil {
		return "", access, Unreadable(field, image, access, err)
	}
	return d, access, nil
}

// IsPublic reports whether an image can be read without a login.
func (s *Sources) IsPublic(ctx context.Context, field string, image oci.Reference) (bool, error) {
	_, err := s.digest(ctx, sourceKey{image: image})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fault.Unauthenticated), errors.Is(err, fault.Denied), errors.Is(err, fault.NotFound):
		return false, nil
	}
	return false, Unreadable(field, image, upstream.Access{}, err)
}

// At returns the current digest of an image for a caller whose access is known. built is set if a
// build has pushed the image.
func (s *Sources) At(ctx context.Context, access upstream.Access, image oci.Reference, built bool) (digest.Digest, error) {
	return s.digest(ctx, sourceKey{access, image, built})
}

// Check looks up an image at its registry without the cache, for a caller whose access is
// known.
func (s *Sources) Check(ctx context.Context, access upstream.Access, image oci.Reference) error {
	_, err := lookUp(ctx, s.direct, sourceKey{access: access, image: image})
	return err
}

// Forget removes an image from the cache, for a caller whose access is known.
func (s *Sources) Forget(access upstream.Access, image oci.Reference) {
	s.known.Delete(sourceKey{access: access, image: image})
}

func (s *Sources) digest(ctx context.Context, key sourceKey) (digest.Digest, error) {
	return s.known.Get(ctx, key, func(ctx context.Context) (digest.Digest, error) { return lookUp(ctx, s.reader(key.built), key) })
}

// reader returns the reader of images that a build has pushed, or of others.
func (s *Sources) reader(built bool) *pullthrough.Reader {
	if built {
		return s.direct
	}
	return s.reads
}

// lookUp queries the registry, and retries once if it does not respond within
// limits.SourceTry. Otherwise clients would receive a retryable error and retry for minutes
// without showing it.
func lookUp(ctx context.Context, from *pullthrough.Reader, key sourceKey) (digest.Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.SourceLookup)
	defer cancel()
	repo := upstream.Repository{Host: key.image.Registry, Name: key.image.Repository}
	first, end := context.WithTimeout(ctx, limits.SourceTry)
	tag, err := from.Resolve(first, repo, key.image.Identifier(), key.access)
	timeout := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.Timeout)
	end()
	if timeout && ctx.Err() == nil {
		tag, err = from.Resolve(ctx, repo, key.image.Identifier(), key.access)
	}
	return tag.Digest, err
}

// Layers returns the layers of an included image for a platform.
func (s *Sources) Layers(ctx context.Context, in Inclusion, p ocispec.Platform) ([]oci.Layer, error) {
	key := includedKey{sourceKey{in.Access, in.Source, in.BuildID != ""}, platforms.Format(p)}
	layers, err := s.included.Get(ctx, key, func(ctx context.Context) ([]oci.Layer, error) {
		ctx, done := s.client.Hold(ctx)
		defer done()
		src := s.reader(in.BuildID != "").Source(upstream.Repository{Host: in.Source.Registry, Name: in.Source.Repository}, in.Access)
		root, err := src.Manifest(ctx, in.Source.Digest)
		if err != nil {
			return nil, err
		}
		out, err := oci.LayersOf(ctx, src, root, p)
		if e, ok := fault.As(err); ok && errors.Is(e, fault.NotFound) { // the image itself exists
			return nil, e.To(fault.Invalid)
		}
		return out, err
	})
	if e, ok := fault.As(err); ok && errors.Is(e, fault.Invalid) {
		return nil, fault.Invalid.New(fmt.Sprintf("%s: %s cannot be included: %s", in.Field, in.Image, e.Public), e)
	}
	return layers, Unreadable(in.Field, in.Image, in.Access, err)
}

// Layer returns a layer of an image in the form that is stored.
func Layer(l oci.Layer, from *containerv1.LayerOrigin) *containerv1.Layer {
	origin := proto.CloneOf(from)
	origin.MediaType = l.MediaType
	return &containerv1.Layer{GzipDigest: l.GzipDigest.String(), GzipSize: proto.Int64(l.Size), TarDigest: l.TarDigest.String(), IncludedFrom: origin}
}

// Unreadable returns the fault for an image that cannot be read, with its field. Problems
// of its registry are errors of the request (fault.Invalid), except those of the service's
// own registry.
func Unreadable(field string, image oci.Reference, a upstream.Access, err error) error {
	e, ok := fault.As(err)
	if !ok {
		return err
	}
	switch {
	case errors.Is(e, fault.NotFound):
		return NotFound(field, image, e)
	case errors.Is(e, fault.Unauthenticated), errors.Is(e, fault.Denied):
		public := fmt.Sprintf("%s: %s may not be read with the credentials of this request, or does not exist", field, image)
		if a.Withheld != "" {
			public += "; " + a.Withheld
		}
		return fault.Invalid.New(public, e).WithCode(fault.ImageDenied)
	case errors.Is(e, fault.Invalid):
		return fault.Invalid.New(fmt.Sprintf("%s: %s cannot be served: %s", field, image, e.Public), e.Cause).WithCode(e.Code)
	case a.Scope != caller.BuildScope && upstream.IsRegistry(e):
		return fault.Invalid.New(fmt.Sprintf("%s: %s cannot be read now: %s", field, image, e.Public), e).WithCode(e.Code)
	}
	return err
}

// AugmentedDigest returns the digest after augmentation of an image that is referenced by
// digest. The issued name contains this digest.
func (s *Sources) AugmentedDigest(ctx context.Context, image oci.Reference, a upstream.Access, add oci.Augmentation, p ocispec.Platform) (digest.Digest, error) {
	repo := upstream.Repository{Host: image.Registry, Name: image.Repository}
	src := s.reads.Source(repo, a)
	root, err := src.Manifest(ctx, image.Digest)
	if err != nil {
		return "", Unreadable("containerImage", image, a, err)
	}
	out, err := oci.Augment(ctx, src, root, add, p)
	if errors.Is(err, fault.NotFound) {
		e, _ := fault.As(err)
		return "", fault.Invalid.New("containerPlatform: "+e.Public, err)
	}
	if err != nil {
		return "", Unreadable("containerImage", image, a, err)
	}
	return out.Root.Digest, nil
}

// An augmentedKey identifies an augmented image.
type augmentedKey struct {
	sourceKey
	// augmentation identifies the platforms and what is added.
	augmentation string
}

// Augmented returns the manifests and the index that an augmentation changes: by the digest of the
// result, that of its source. The image is referenced by digest, and access to it is known. built is
// set if a build has pushed it. It returns fault.NotFound if the image or one of its parts no longer
// exists. Results are cached: each needs several requests to the registry.
func (s *Sources) Augmented(ctx context.Context, image oci.Reference, a upstream.Access, built bool, add oci.Augmentation, wanted ...ocispec.Platform) (map[digest.Digest]digest.Digest, error) {
	what, err := json.Marshal(add)
	if err != nil {
		return nil, err
	}
	key := augmentedKey{sourceKey{a, image, built}, oci.Platforms(wanted) + " " + digest.FromBytes(what).String()}
	return s.augmented.Get(ctx, key, func(ctx context.Context) (map[digest.Digest]digest.Digest, error) {
		ctx, done := s.client.Hold(ctx)
		defer done()
		src := s.reader(built).Source(upstream.Repository{Host: image.Registry, Name: image.Repository}, a)
		root, err := src.Manifest(ctx, image.Digest)
		if err != nil {
			return nil, err
		}
		out, err := oci.Augment(ctx, src, root, add, wanted...)
		if err != nil {
			return nil, err
		}
		made := map[digest.Digest]digest.Digest{}
		for _, i := range out.Images {
			made[i.Manifest.Digest] = i.Source
		}
		made[out.Root.Digest] = root.Digest
		// An addition may change nothing, e.g. a variable that the image has.
		maps.DeleteFunc(made, func(result, source digest.Digest) bool { return result == source })
		return made, nil
	})
}

// NotFound returns the fault for an image that does not exist or is in the service's own
// repository, whose content must not be disclosed.
func NotFound(field string, image oci.Reference, cause error) error {
	return fault.Invalid.New(fmt.Sprintf("%s: %s does not exist", field, image), cause).WithCode(fault.ImageNotFound)
}
