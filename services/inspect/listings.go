package inspect

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/inspect/listing"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/layertar"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// listings limits the number of layers that are read concurrently, and caches small listings.
// Safe for concurrent use.
type listings struct {
	cache *memo.Cache[listingKey, *listing.Listing]
	pool  *fairshare.Pool
}

// A listingKey identifies a layer in a repository. The zero repository means that the container
// service stores the layer.
type listingKey struct {
	repo   upstream.Repository
	digest digest.Digest
}

func newListings() *listings {
	return &listings{
		pool: fairshare.New(fairshare.Config{
			Name: "layers that are read to list their files", Capacity: limits.ListedAtOnce, PerClient: limits.ListedAtOnceClient, Reserved: 1,
			MaxWaiting: limits.ListedWaiting, MaxWaitingPerClient: limits.ListedWaitingClient, MaxWait: limits.ListedWait,
		}),
		cache: memo.NewCache(memo.Options[listingKey, *listing.Listing]{
			Weight: limits.ListingsKept,
			Weigh:  func(_ listingKey, l *listing.Listing) uint32 { return l.Weight() },
		}),
	}
}

// list returns a page of a layer's listing. If the listing is not cached, list charges the
// caller for the size of the layer and reads it.
func (s *Service) list(ctx context.Context, who caller.ID, l imageReader, layer ocispec.Descriptor, q listing.Query) (listing.Page, error) {
	from, err := s.sourceOf(ctx, l, layer)
	if err != nil {
		return listing.Page{}, err
	}
	if all, ok := s.listings.cache.Get(from.key); ok {
		return all.Page(q), nil
	}
	cost := &layerCharge{charge: func(pulls int) error { return s.charge(ctx, who, pulls) }}
	if err := cost.chargeStored(layer.Size); err != nil {
		return listing.Page{}, err
	}
	turn, err := s.listings.pool.Acquire(ctx, fairshare.Request{Client: who.Client(ctx), Class: fairshare.Long})
	if err != nil {
		return listing.Page{}, err
	}
	defer turn.Release()
	if all, ok := s.listings.cache.Get(from.key); ok { // cached by a concurrent call
		return all.Page(q), nil
	}
	page, all, err := read(ctx, from, layer, cost.chargeUnpacked, q)
	if all != nil {
		s.listings.cache.Set(from.key, all)
	}
	return page, cmp.Or(cost.refused, err)
}

// A layerCharge charges pulls for reading a layer: one for each limits.ListedCharge bytes of its
// compressed or its unpacked size, whichever is larger. The unpacked size is charged while the
// layer is read, since it is not known before.
type layerCharge struct {
	charge func(pulls int) error
	// charged is the size that has been charged, and seen the unpacked size so far, in bytes.
	charged, seen int64
	// refused is the first error of charge.
	refused error
}

func (t *layerCharge) chargeStored(size int64) error {
	pulls := size / limits.ListedCharge
	t.charged = pulls * limits.ListedCharge
	return t.charge(int(pulls))
}

func (t *layerCharge) chargeUnpacked(n int64) error {
	for t.seen += n; t.refused == nil && t.seen >= t.charged+limits.ListedCharge; t.charged += limits.ListedCharge {
		t.refused = t.charge(1)
	}
	return t.refused
}

// checkListable returns fault.Invalid if the files of a layer cannot be listed.
func checkListable(layer ocispec.Descriptor) error {
	switch {
	case len(layer.URLs) > 0:
		return fault.Invalid.Newf("The layer %s is stored outside the image's registry, where this service does not read it", layer.Digest)
	case !oci.IsLayer(layer) && !oci.IsErofs(layer):
		return fault.Invalid.Newf("The layer %s has the media type %q, whose files cannot be listed", layer.Digest, fault.Quote(layer.MediaType))
	case layer.Size <= 0:
		return fault.Invalid.Newf("The manifest of the image has no size for the layer %s", layer.Digest)
	case layer.Size > limits.ListedPacked:
		return fault.Invalid.Newf("The layer %s has %d MiB, but files are only listed for layers of up to %d MiB; fetch the image with `slipway pull` instead", layer.Digest, layer.Size>>20, limits.ListedPacked>>20)
	}
	return nil
}

// read reads and verifies a layer, and returns a page and the complete listing. The listing is
// nil if it is too large to be cached.
func read(ctx context.Context, from source, layer ocispec.Descriptor, unpacked func(int64) error, q listing.Query) (listing.Page, *listing.Listing, error) {
	limited, cancel := context.WithTimeout(ctx, limits.ListedTime)
	defer cancel()
	page, all, err := listing.Read(limited, blobOf(from, layer, unpacked), q)
	if refusal, ok := errors.AsType[*layertar.LayerError](err); ok {
		return page, nil, fault.Invalid.New("The layer "+refusal.Layer+" "+refusal.Reason, refusal.Cause)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return page, nil, fault.Timeout.New("The layer "+layer.Digest.String()+" could not be read within "+limits.ListedTime.String()+"; fetch the image with `slipway pull` instead", err)
	}
	return page, all, from.fault(err)
}

// blobOf returns a layer whose content is verified while it is read.
func blobOf(from source, layer ocispec.Descriptor, unpacked func(int64) error) layertar.Layer {
	return layertar.Layer{
		Name: layer.Digest.String(), Size: layer.Size, Unpacked: unpacked,
		Open: func(ctx context.Context) (io.ReadCloser, error) {
			content, err := from.open(ctx)
			if err != nil {
				return nil, err
			}
			return &verifiedReader{ReadCloser: content, want: layer.Digest, seen: layer.Digest.Verifier(), left: layer.Size}, nil
		},
	}
}

// A verifiedReader reads a blob, and returns an error at its end unless the content has the
// expected digest and size.
type verifiedReader struct {
	io.ReadCloser
	want digest.Digest
	seen digest.Verifier
	left int64
}

// Read implements io.Reader.
func (c *verifiedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.left -= int64(n)
	_, _ = c.seen.Write(p[:n]) // never fails
	if c.left < 0 || errors.Is(err, io.EOF) && (c.left > 0 || !c.seen.Verified()) {
		return 0, fault.Invalid.Newf("The content of the layer %s does not have that digest", c.want)
	}
	return n, err
}
