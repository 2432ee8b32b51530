package bundle

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient"
	regmanifest "github.com/regclient/regclient/types/manifest"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/limits"
)

// A copier copies images from registries into a layout, each blob once. It is safe for concurrent
// use.
type copier struct {
	client *regclient.RegClient
	to     *layout
	// have are the blobs that are left out.
	have     map[digest.Digest]bool
	progress *progress
	once     once

	mu sync.Mutex
	// referrers are the manifests that refer to copied ones, by digest.
	referrers map[digest.Digest]ocispec.Descriptor
	leftOut   map[digest.Digest]bool
}

func newCopier(client *regclient.RegClient, to *layout, have map[digest.Digest]bool, p *progress) *copier {
	return &copier{client: client, to: to, have: have, progress: p, referrers: map[digest.Digest]ocispec.Descriptor{}, leftOut: map[digest.Digest]bool{}}
}

// image copies the image of a name with all its platforms and everything that refers to it, and
// returns the descriptor of its manifest.
func (c *copier) image(ctx context.Context, from name) (ocispec.Descriptor, error) {
	at, err := from.ref()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	m, err := c.client.ManifestGet(ctx, at)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	root := fromClient(m.GetDescriptor())
	raw, err := verified(m, root.Digest)
	if err != nil {
		return root, err
	}
	root.Size = int64(len(raw))
	w := &walk{copier: c, at: at, seen: map[digest.Digest]bool{root.Digest: true}}
	return root, c.once.do(ctx, at.Repository+"@"+root.Digest.String(), func() error { return w.store(ctx, root, raw, 0) })
}

// A walk copies one image.
type walk struct {
	*copier
	at ref.Ref
	// seen are the manifests so far. A registry can list manifests that refer to each other.
	seen map[digest.Digest]bool
}

// verified returns the bytes of a manifest, whose digest is verified.
func verified(m regmanifest.Manifest, want digest.Digest) ([]byte, error) {
	raw, err := m.RawBody()
	if err != nil {
		return nil, err
	}
	if err := checkDigest(want); err != nil {
		return nil, err
	}
	if got := digest.FromBytes(raw); got != want {
		return nil, fmt.Errorf("the registry returned a manifest with the digest %s instead of %s", got, want)
	}
	return raw, nil
}

// manifest copies a manifest and everything that it refers to.
func (c *walk) manifest(ctx context.Context, d ocispec.Descriptor, depth int) error {
	if c.seen[d.Digest] {
		return nil
	}
	c.seen[d.Digest] = true
	if depth > limits.BundleDepth || len(c.seen) > limits.MirrorManifests {
		return fmt.Errorf("the image has more than %d manifests, or %s is more than %d references deep", limits.MirrorManifests, d.Digest, limits.BundleDepth)
	}
	raw, err := c.to.document(d, limits.Document)
	if err != nil {
		m, err := c.client.ManifestGet(ctx, c.at.SetDigest(d.Digest.String()))
		if err != nil {
			return err
		}
		if raw, err = verified(m, d.Digest); err != nil {
			return err
		}
		if int64(len(raw)) != d.Size {
			return fmt.Errorf("the manifest %s has %d bytes instead of %d", d.Digest, len(raw), d.Size)
		}
	}
	return c.store(ctx, d, raw, depth)
}

// store stores a manifest after everything that it refers to, and then what refers to it.
func (c *walk) store(ctx context.Context, d ocispec.Descriptor, raw []byte, depth int) error {
	m, err := parseManifest(d, raw)
	if err != nil {
		return err
	}
	for _, child := range m.children {
		if err := c.manifest(ctx, child, depth+1); err != nil {
			return fmt.Errorf("the manifest %s: %w", child.Digest, err)
		}
	}
	err = each(ctx, limits.BundleBlobs, m.blobs, func(ctx context.Context, b ocispec.Descriptor) error {
		return c.once.do(ctx, b.Digest.String(), func() error { return c.blob(ctx, c.at, b) })
	})
	if err != nil {
		return err
	}
	if _, err := c.to.putBytes(m.MediaType, raw); err != nil {
		return err
	}
	return c.referring(ctx, d, depth)
}

// referring copies the manifests that refer to a manifest, such as signatures.
func (c *walk) referring(ctx context.Context, d ocispec.Descriptor, depth int) error {
	list, err := c.client.ReferrerList(ctx, c.at.SetDigest(d.Digest.String()))
	if err != nil {
		return fmt.Errorf("listing what refers to %s: %w", d.Digest, err)
	}
	if len(list.Descriptors) > limits.Referrers {
		return fmt.Errorf("more than %d manifests refer to %s", limits.Referrers, d.Digest)
	}
	for _, r := range list.Descriptors {
		one := fromClient(r)
		if c.seen[one.Digest] {
			continue // e.g. an image of an index that also refers to it
		}
		if err := c.manifest(ctx, one, depth+1); err != nil {
			return fmt.Errorf("the referrer %s of %s: %w", one.Digest, d.Digest, err)
		}
		c.mu.Lock()
		c.referrers[one.Digest] = one
		c.mu.Unlock()
	}
	return nil
}

// blob copies a blob, unless it exists or is left out.
func (c *copier) blob(ctx context.Context, at ref.Ref, d ocispec.Descriptor) error {
	switch {
	case c.to.has(d):
		c.progress.count(func(p *progress) { p.present += d.Size })
		return nil
	case c.have[d.Digest]:
		c.mu.Lock()
		c.leftOut[d.Digest] = true
		c.mu.Unlock()
		c.progress.count(func(p *progress) { p.left += d.Size })
		return nil
	}
	from, err := c.client.BlobGet(ctx, at, toClient(d))
	if err != nil {
		return fmt.Errorf("the blob %s: %w", d.Digest, err)
	}
	defer func() { _ = from.Close() }() // the digest of what was read is verified
	if err := c.to.put(d, c.progress.reader(from)); err != nil {
		return fmt.Errorf("the blob %s: %w", d.Digest, err)
	}
	return nil
}

// once runs a function once for each key, also if it is requested concurrently. A function that failed
// is run again by the next call.
type once struct {
	mu      sync.Mutex
	done    map[string]bool
	running map[string]chan struct{}
}

func (o *once) do(ctx context.Context, key string, run func() error) error {
	for {
		wait, ok := o.begin(key)
		switch {
		case ok && wait == nil:
			return nil
		case ok:
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := run()
		o.end(key, err == nil)
		return err
	}
}

// begin returns false if the caller has to run the function. Otherwise the channel is closed when
// the running call ends; it is nil if it was run.
func (o *once) begin(key string) (chan struct{}, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[key] {
		return nil, true
	}
	if wait := o.running[key]; wait != nil {
		return wait, true
	}
	if o.running == nil {
		o.running, o.done = map[string]chan struct{}{}, map[string]bool{}
	}
	o.running[key] = make(chan struct{})
	return nil, false
}

func (o *once) end(key string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.running[key])
	delete(o.running, key)
	o.done[key] = ok
}

// each calls run for all values, some of them concurrently, until one fails.
func each[T any](ctx context.Context, concurrency int, all []T, run func(context.Context, T) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	todo := make(chan T, len(all))
	for _, one := range all {
		todo <- one
	}
	close(todo)
	var running sync.WaitGroup
	for range min(concurrency, len(all)) {
		running.Go(func() {
			for one := range todo {
				if ctx.Err() != nil {
					return
				}
				if err := run(ctx, one); err != nil {
					stop(err)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// known returns the referrers and the blobs that were left out so far.
func (c *copier) known() (referrers map[digest.Digest]ocispec.Descriptor, leftOut map[digest.Digest]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.referrers), maps.Clone(c.leftOut)
}
