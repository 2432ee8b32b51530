package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/regclient/regclient/types/ref"
	"golang.org/x/sync/errgroup"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/upstream"
)

// progressInterval is the shortest time between two lines about the progress.
const progressInterval = 5 * time.Second

// retryPause is the pause before the second try of a blob; later pauses are longer.
const retryPause = 2 * time.Second

// A copying copies an image to its target.
type copying struct {
	from    *remote.Repository
	to      *remote.Target
	uploads remote.Uploads
	out     jobs.Output
	total   int64 // bytes of all blobs

	mu       sync.Mutex
	bytes    map[remote.CopyKind]int64
	reported time.Time
}

// image copies the blobs, then the manifests, and the root with its tag last.
func (c *copying) image(ctx context.Context, i *image) error {
	c.bytes, c.reported = map[remote.CopyKind]int64{}, time.Now()
	blobs, within := errgroup.WithContext(ctx)
	blobs.SetLimit(limits.MirrorBlobs)
	for _, b := range i.blobs {
		blobs.Go(func() error { return c.blob(within, b) })
	}
	if err := blobs.Wait(); err != nil {
		return err
	}
	last := len(i.manifests) - 1
	for _, doc := range i.manifests[:last] {
		if err := c.manifest(ctx, c.to.Ref.SetDigest(doc.Digest.String()), doc); err != nil {
			return err
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(i.tags)) {
		if err := c.attach(ctx, tag, i); err != nil {
			return err
		}
	}
	return c.manifest(ctx, c.to.Ref, i.manifests[last])
}

// attach sets a tag for a signature, attestation or SBOM, unless the target has another one: its
// owner may have signed the copy.
func (c *copying) attach(ctx context.Context, tag string, i *image) error {
	d := i.tags[tag]
	switch there, err := c.to.Resolve(ctx, tag); {
	case err == nil && there != d:
		c.out.Print("", tag+" is not copied: the target has another one")
		return nil
	case err == nil:
		return nil
	case !errors.Is(err, fault.NotFound):
		return err
	}
	n := slices.IndexFunc(i.manifests, func(doc oci.Document) bool { return doc.Digest == d })
	return c.manifest(ctx, c.to.Ref.SetTag(tag), i.manifests[n])
}

func (c *copying) manifest(ctx context.Context, name ref.Ref, doc oci.Document) error {
	return c.retrying(ctx, "The manifest "+doc.Digest.String(), func() error { return c.to.PutManifest(ctx, name, doc) })
}

func (c *copying) blob(ctx context.Context, b ocispec.Descriptor) error {
	var how remote.CopyKind
	err := c.retrying(ctx, b.Digest.String(), func() (err error) {
		how, err = c.to.CopyContinued(ctx, c.from, b, c.uploads)
		if errors.Is(err, remote.ErrWholeOnly) {
			c.reportWhole(b, err)
			how, err = c.to.CopyVerified(ctx, c.from, b)
		}
		return err
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes[how] += b.Size
	if time.Since(c.reported) >= progressInterval {
		c.reported = time.Now()
		c.out.Print("", fmt.Sprintf("%d of %d bytes", c.done(), c.total))
	}
	return nil
}

// reportWhole logs that a blob is uploaded as a whole, because of err.
func (c *copying) reportWhole(b ocispec.Descriptor, err error) {
	why := upstream.ErrUploadAddress.Error()
	if e, ok := fault.As(err); ok {
		why = e.Public
	}
	c.out.Print("", fmt.Sprintf("%s is uploaded as a whole, and from its start after an interruption, because its upload in parts failed: %s", b.Digest, why))
}

// retrying calls do, and calls it again after temporary failures of a registry.
func (c *copying) retrying(ctx context.Context, what string, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		after, why, ok := c.to.Retry(err)
		if !ok || try == limits.MirrorTries || ctx.Err() != nil {
			return err
		}
		after = min(max(after, time.Duration(try)*retryPause), limits.MirrorPause)
		c.out.Print("", fmt.Sprintf("%s is copied again in %s: %s", what, after.Round(time.Second), why))
		if !retry.Sleep(ctx, after) {
			return ctx.Err()
		}
	}
}

func (c *copying) done() (bytes int64) {
	for _, n := range c.bytes {
		bytes += n
	}
	return bytes
}

func (c *copying) summary() string {
	return fmt.Sprintf("%d bytes were copied, %d bytes were mounted, and %d bytes existed", c.bytes[remote.Copied], c.bytes[remote.Mounted], c.bytes[remote.Existed])
}
