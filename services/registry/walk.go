package registry

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/pullthrough"
)

// A depth is how far the manifests of an image have been read.
type depth int

const (
	// listed: those that its index lists, with their blobs.
	listed depth = iota + 1
	// referring: also their referrers, about which its registry must be asked.
	referring
)

// A walking identifies a running walk.
type walking struct {
	imageKey
	depth
}

// walk reads every unread manifest of the image. So a client may continue here with digests that
// another replica returned.
func (r reader) walk(ctx context.Context, tok *resolvedToken, root digest.Digest, img *image, how depth) error {
	img.mu.Lock()
	walked := img.walked
	img.mu.Unlock()
	if walked >= how {
		return nil
	}
	_, err := r.images.walking.Do(ctx, walking{r.key(tok, root), how}, func(ctx context.Context) (struct{}, error) {
		err := r.walkNow(pullthrough.Passing(ctx), img, how)
		if err == nil {
			r.images.generated.Set(r.key(tok, root), img) // the image has grown, and its weight with it
		}
		return struct{}{}, err
	})
	return err
}

func (r reader) walkNow(ctx context.Context, img *image, how depth) error {
	queue := make([]digest.Digest, 0, len(img.entries)+1)
	for _, e := range img.entries {
		queue = append(queue, e.Digest)
	}
	if !img.augmented {
		queue = append(queue, img.root.Digest)
	}
	for n := 0; len(queue) > 0 && n < limits.WalkManifests; n++ {
		d := queue[0]
		queue = queue[1:]
		if _, ours := img.generated[d]; ours {
			continue
		}
		more, err := r.visit(ctx, img, d, how)
		if err != nil {
			return err
		}
		queue = append(queue, more...)
	}
	img.mu.Lock()
	img.walked = max(img.walked, how)
	img.mu.Unlock()
	return nil
}

// visit reads one manifest and returns the digests to read next.
func (r reader) visit(ctx context.Context, img *image, d digest.Digest, how depth) ([]digest.Digest, error) {
	doc, err := r.document(ctx, img, d)
	if err != nil {
		if errors.Is(err, fault.NotFound) {
			return nil, nil // a manifest that upstream lost does not affect the others
		}
		return nil, err
	}
	var next []digest.Digest
	if oci.IsIndex(doc.MediaType) {
		x, err := oci.ParseIndex(doc)
		if err != nil {
			return nil, err
		}
		for _, e := range x.Manifests {
			next = append(next, e.Digest)
		}
	}
	if how == referring {
		refs, err := r.referrers(ctx, d)
		if err != nil {
			return nil, err
		}
		img.addReferrers(refs)
		for _, e := range refs {
			next = append(next, e.Digest)
		}
	}
	img.addManifests(next)
	return next, nil
}
