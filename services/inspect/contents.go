package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/inspect/installed"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// contents is what package managers record in a sequence of layers.
type contents struct {
	packages   []installed.Package
	unreadable []string
	weight     uint32
}

// A contentsKey identifies a sequence of layers and the repository of each.
type contentsKey [sha256.Size]byte

// A contentsCache caches contents. Layers are immutable.
type contentsCache struct {
	cache *otter.Cache[contentsKey, *contents]
}

func newContentsCache() *contentsCache {
	return &contentsCache{otter.Must(&otter.Options[contentsKey, *contents]{
		MaximumWeight: limits.ContentsKept,
		Weigher:       func(_ contentsKey, c *contents) uint32 { return c.weight },
	})}
}

// A stack is what the packages of an image are read from: layers, lowest first, and a lock between them.
type stack struct {
	below, above []ocispec.Descriptor
	// lock has the records of the lock by path, and lockDigest is its digest; both zero if there is none.
	lock       map[string]installed.Record
	lockDigest string
}

func (s stack) layers() []ocispec.Descriptor { return slices.Concat(s.below, s.above) }

// key returns the cache's key. It returns an *unknownPackages error if a layer cannot be read.
func (r *packageReader) key(ctx context.Context, s stack) (contentsKey, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %d\n", s.lockDigest, len(s.below)) // never fails
	for _, layer := range s.layers() {
		from, err := r.service.sourceOf(ctx, r.image, layer)
		if err != nil {
			return contentsKey{}, asUnknown(err)
		}
		_, _ = fmt.Fprintf(sum, "%q\n", []string{from.key.repo.Host, from.key.repo.Name, from.key.digest.String()})
	}
	return contentsKey(sum.Sum(nil)), nil
}

// contents returns the packages that are installed in a stack. The caller has read the manifest of the image
// from its registry. The layers are only read, and charged, if the contents are not cached.
func (r *packageReader) contents(ctx context.Context, s stack) (*contents, error) {
	key, err := r.key(ctx, s)
	if err != nil {
		return nil, err
	}
	cache := r.service.contents.cache
	if c, ok := cache.GetIfPresent(key); ok {
		return c, nil
	}
	if err := r.checkLayers(s.layers()); err != nil {
		return nil, err
	}
	turn, err := r.service.listings.pool.Acquire(ctx, fairshare.Request{Client: r.who.Client(ctx), Class: fairshare.Long})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	if c, ok := cache.GetIfPresent(key); ok { // cached by a concurrent call
		return c, nil
	}
	image := installed.NewImage(r.records, installed.Managers()...)
	if err := r.readStack(ctx, image, s); err != nil {
		return nil, err
	}
	c := &contents{}
	c.packages, c.unreadable = image.Packages()
	c.weight = uint32(image.Size()) + 256
	cache.Set(key, c)
	return c, nil
}

func (r *packageReader) readStack(ctx context.Context, image *installed.Image, s stack) error {
	if err := r.readLayers(ctx, image, s.below); err != nil {
		return err
	}
	err := image.AddRecords(installed.Conda, lockLayer, s.lock)
	if err != nil {
		return &unknownPackages{"The lock and the layers of the image have too many packages", false}
	}
	return r.readLayers(ctx, image, s.above)
}

// asUnknown converts the fault of a layer that cannot be read to an *unknownPackages error.
func asUnknown(err error) error {
	if e, ok := fault.As(err); ok && errors.Is(err, fault.Invalid) {
		return &unknownPackages{e.Public, false}
	}
	return err
}
