package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/inspect/installed"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

// contents is what package managers record in a sequence of layers.
type contents struct {
	packages   []installed.Package
	unreadable []string
	weight     uint32
}

// A contentsKey identifies a sequence of layers and the repository of each.
type contentsKey [sha256.Size]byte

// A contentsCache caches contents, and the layers below the environment of images with a lock, which many of
// these images share. Layers are immutable.
type contentsCache struct {
	cache *memo.Cache[contentsKey, *contents]
	below *memo.Cache[contentsKey, *installed.Image]
}

func newContentsCache() *contentsCache {
	return &contentsCache{
		memo.NewCache(memo.Options[contentsKey, *contents]{
			Weight: limits.ContentsKept,
			Weigh:  func(_ contentsKey, c *contents) uint32 { return c.weight },
		}),
		memo.NewCache(memo.Options[contentsKey, *installed.Image]{
			Weight: limits.ContentsKept,
			Weigh:  func(_ contentsKey, m *installed.Image) uint32 { return weightOf(m) },
		}),
	}
}

// weightOf returns the approximate memory that the records of an image use, in bytes.
func weightOf(m *installed.Image) uint32 { return uint32(m.Size()) + 256 }

// A stack is what the packages of an image are read from: layers, lowest first, and a lock between them.
type stack struct {
	below, above []ocispec.Descriptor
	// lock has the records of the lock by path, and lockDigest is its digest; both are zero without a lock.
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
	if c, ok := cache.Get(key); ok {
		return c, nil
	}
	turn, err := r.service.listings.pool.Acquire(ctx, fairshare.Request{Client: r.who.Client(ctx), Class: fairshare.Long})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	if c, ok := cache.Get(key); ok { // cached by a concurrent call
		return c, nil
	}
	image, err := r.readStack(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &contents{weight: weightOf(image)}
	c.packages, c.unreadable = image.Packages()
	cache.Set(key, c)
	return c, nil
}

// readStack reads a stack.
func (r *packageReader) readStack(ctx context.Context, s stack) (*installed.Image, error) {
	if s.lock == nil {
		return r.readAll(ctx, s.layers())
	}
	key, err := r.key(ctx, stack{below: s.below})
	if err != nil {
		return nil, err
	}
	below, cached := r.service.contents.below.Get(key)
	if !cached {
		if below, err = r.readAll(ctx, s.below); err != nil {
			return nil, err
		}
		r.service.contents.below.Set(key, below)
		r.records = installed.NewBudget() // the clone counts again
	}
	image, err := below.Clone(r.records)
	if err == nil {
		err = image.AddRecords(installed.Conda, lockLayer, s.lock)
	}
	if err != nil {
		return nil, &unknownPackages{"The lock and the layers of the image have too many packages", false}
	}
	if err := r.checkLayers(s.above); err != nil {
		return nil, err
	}
	return image, r.readLayers(ctx, image, s.above)
}

func (r *packageReader) readAll(ctx context.Context, layers []ocispec.Descriptor) (*installed.Image, error) {
	if err := r.checkLayers(layers); err != nil {
		return nil, err
	}
	image := installed.NewImage(r.records, installed.Managers()...)
	return image, r.readLayers(ctx, image, layers)
}

// asUnknown converts the fault of a layer that cannot be read to an *unknownPackages error.
func asUnknown(err error) error {
	if e, ok := fault.As(err); ok && errors.Is(err, fault.Invalid) {
		return &unknownPackages{e.Public, false}
	}
	return err
}
