package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/internal/rpc"
)

// A verdict is the result of a required scan of an image.
type verdict struct {
	allowed   bool
	reason    string
	manifests []string
}

// verdicts holds the results of the required scans of a token's images by upstream digest. It lives as long as its
// token is cached, so that the result of a later scan applies within planTTL.
type verdicts struct {
	mu    sync.Mutex
	known map[digest.Digest]verdict
}

func (v *verdicts) get(root digest.Digest) (verdict, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.known[root]
	return known, ok
}

func (v *verdicts) set(root digest.Digest, known verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[digest.Digest]verdict{}
	}
	v.known[root] = known
}

// scans shares the running calls that wait for a scan, by token and digest.
type scans = memo.Flight[string, *containerv1.AwaitScanResponse]

// An unscanned error is returned for an image whose required scan must be waited for.
type unscanned struct{ root digest.Digest }

func (e *unscanned) Error() string { return "the scan of " + e.root.String() + " is not known" }

// checkScan returns fault.Denied if the required scan of the image of an upstream digest does not allow a pull, and an
// unscanned error if its result is not known.
func (tok *resolvedToken) checkScan(root digest.Digest) error {
	if !tok.scanned {
		return nil
	}
	known, ok := tok.verdicts.get(root)
	switch {
	case !ok:
		return &unscanned{root}
	case !known.allowed:
		return fault.Denied.Newf("%s", known.reason)
	}
	return nil
}

// movedTags is how often the reference of an image may move to one that was not scanned while a pull waits.
const movedTags = 3

// afterScan calls serve. If that finds an image whose required scan must be waited for, it waits and calls serve again.
func (s *Registry) afterScan(ctx context.Context, tok *resolvedToken, serve func() error) error {
	for range movedTags {
		err := serve()
		image, ok := errors.AsType[*unscanned](err)
		if !ok {
			return err
		}
		known, err := s.awaitScan(ctx, tok, image.root)
		if err != nil {
			return err
		}
		tok.verdicts.set(image.root, known)
	}
	return fault.Unavailable.Newf("The image changed while it was scanned; pull again").After(5 * time.Second)
}

// checkScanned returns fault.Denied for an image that the required scan of its index did not cover. Manifests of which
// all layers are JSON, such as signatures and attestations, are not scanned. Neither are those with an empty config of
// another type than that of images, such as SOCI indexes: no engine runs them.
func (tok *resolvedToken) checkScanned(img *image, doc oci.Document) error {
	if !tok.scanned || !oci.IsManifest(doc.MediaType) {
		return nil
	}
	m, err := oci.ParseManifest(doc)
	isFile := func(l ocispec.Descriptor) bool { return !strings.HasSuffix(l.MediaType, "json") }
	isArtifact := m.Config.Digest == ocispec.DescriptorEmptyJSON.Digest && !oci.IsConfig(m.Config.MediaType)
	if err != nil || isArtifact || !slices.ContainsFunc(m.Layers, isFile) {
		return err
	}
	source, ok := img.sources[doc.Digest]
	if !ok {
		source = doc.Digest
	}
	if known, _ := tok.verdicts.get(img.key.digest); !slices.Contains(known.manifests, source.String()) {
		return fault.Denied.Newf("The request requires a scan, and the manifest %s was not scanned: request the image for its platform", doc.Digest)
	}
	return nil
}

// awaitScan waits for the scan of an image.
func (s *Registry) awaitScan(ctx context.Context, tok *resolvedToken, root digest.Digest) (verdict, error) {
	place, err := s.waiting.TryAcquire(fairshare.Request{Client: rpc.CallFrom(ctx).Address()})
	if err != nil {
		return verdict{}, err
	}
	defer place.Release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.buildsStopped, func() { cancel(errBuildsStopped) })()
	got, err := s.scans.Do(ctx, tok.token+" "+root.String(), func(ctx context.Context) (*containerv1.AwaitScanResponse, error) {
		return s.callAwaitScan(ctx, &containerv1.AwaitScanRequest{Token: tok.token, Digest: root.String()})
	})
	switch {
	case errors.Is(context.Cause(ctx), errBuildsStopped) && err != nil:
		return verdict{}, fault.Unavailable.Newf("The server stops while the image is being scanned; pull again in a moment").After(5 * time.Second)
	case err != nil:
		return verdict{}, fmt.Errorf("waiting for the scan of an image: %w", err)
	case !got.GetDone():
		return verdict{}, fault.Unavailable.Newf("The image is still being scanned; pull again").After(5 * time.Second)
	}
	return verdict{allowed: got.GetAllowed(), reason: got.GetReason(), manifests: got.GetManifests()}, nil
}

// scanCall is the timeout of one call that waits for a scan.
const scanCall = 30 * time.Second

// callAwaitScan calls AwaitScan until the scan ends, or the timeout of a pull that waits.
func (s *Registry) callAwaitScan(ctx context.Context, req *containerv1.AwaitScanRequest) (*containerv1.AwaitScanResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.deps.PullWait+time.Second)
	defer cancel()
	for {
		try, end := context.WithTimeout(ctx, scanCall)
		got, err := s.deps.Containers.AwaitScan(try, req)
		end()
		switch {
		case ctx.Err() != nil || err == nil && got.GetDone():
			return got, err
		case err == nil:
			if !retry.Sleep(ctx, time.Second) {
				return got, nil
			}
		case !errors.Is(err, fault.Unavailable):
			return nil, err
		}
		if err != nil && !retry.Sleep(ctx, time.Second) {
			return nil, err
		}
	}
}
