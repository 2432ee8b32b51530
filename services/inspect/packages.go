package inspect

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/inspect/installed"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
)

// ListImagePackages returns the Conda packages of an image: from its lock or, if it has none,
// from the records of installed packages in its layers. It returns fault.NotFound if the image has
// neither for any platform.
func (s *Service) ListImagePackages(ctx context.Context, req *inspectv1.ListImagePackagesRequest) (*inspectv1.ListImagePackagesResponse, error) {
	image, platform, err := parse(req)
	if err != nil {
		return nil, err
	}
	who, err := s.admit(ctx, req.GetImage())
	if err != nil {
		return nil, err
	}
	l, all, err := s.variants(ctx, who, image, platform, imagesOf)
	if err != nil {
		return nil, err
	}
	out, known := &inspectv1.ListImagePackagesResponse{}, false
	r := s.packageReader(who, l)
	var first error
	for i, v := range all {
		if i > 0 {
			if err := s.charge(ctx, who, 1); err != nil {
				return nil, err
			}
		}
		p, err := r.read(ctx, v)
		if refusal, is := errors.AsType[*unknownPackages](err); is {
			first = cmp.Or(first, err)
			p = &inspectv1.ImagePackages{Problem: proto.String(refusal.reason)}
		} else if err != nil {
			return nil, err
		} else {
			known = true
		}
		p.Platform, p.Digest = proto.String(v.platform), proto.String(v.digest)
		out.Platforms = append(out.Platforms, p)
	}
	if !known && first != nil {
		return nil, fault.NotFound.New(first.Error(), nil)
	}
	return out, nil
}

// A packageReader reads the packages of the variants of one image.
type packageReader struct {
	service *Service
	who     caller.ID
	image   imageReader
	// locks is the number of bytes of locks that may still be read, and layers that of layers that
	// are searched for records.
	locks, layers int64
	records       *installed.Budget
	// isFree is set if nothing is charged for reading layers.
	isFree bool
	// unread is set if layers were left out.
	unread bool
	// gaps are the parts of the image whose packages are not known.
	gaps []string
}

func (s *Service) packageReader(who caller.ID, image imageReader) *packageReader {
	return &packageReader{service: s, who: who, image: image, locks: limits.ImageLocks, layers: limits.ListedPacked, records: installed.NewBudget()}
}

// read returns the packages of a variant. It returns an *unknownPackages error if they are not known.
func (r *packageReader) read(ctx context.Context, v variant) (*inspectv1.ImagePackages, error) {
	records, err := r.service.readLock(ctx, r.who, r.image, v, &r.locks)
	if err == nil {
		return &inspectv1.ImagePackages{Source: proto.String(sourceLock), Packages: v.packages(records)}, nil
	}
	refusal, is := errors.AsType[*unknownPackages](err)
	if !is || !refusal.noLock {
		return nil, err
	}
	out, found := r.readRecords(ctx, v)
	if errors.Is(found, errNoRecords) {
		return nil, err
	}
	return out, found
}

// An unknownPackages error states why the packages of an image are not known.
type unknownPackages struct {
	reason string
	// noLock reports that the image has no lock, as opposed to an invalid one.
	noLock bool
}

// The values of ImagePackages.source.
const (
	sourceLock    = "lock"
	sourceRecords = "conda-meta"
)

func (e *unknownPackages) Error() string { return e.reason }

// A variant is the image for one platform.
type variant struct {
	platform, digest string
	// created is when the image was created, according to its config.
	created string
	layers  []ocispec.Descriptor
	// history has the entry of each layer, lowest first.
	history []string
	// lock is the digest of the lock according to the label of the image; "" if it has none.
	lock string
	// mounted is set for an environment without an image.
	mounted *mounted
}

// variants returns the reader of an image, and its variants for platform. choose returns the entries of
// an index for platform, which may be nil.
func (s *Service) variants(ctx context.Context, who caller.ID, image oci.Reference, platform *ocispec.Platform, choose func(ocispec.Index, *ocispec.Platform) ([]ocispec.Descriptor, error)) (imageReader, []variant, error) {
	ctx, done := s.deps.Control.Documents().Hold(ctx)
	defer done()
	l, err := s.openImage(ctx, who, image)
	if err != nil {
		return l, nil, err
	}
	all, err := l.variants(ctx, platform, choose)
	return l, all, err
}

// variants returns the variants of an image; see Service.variants.
func (l imageReader) variants(ctx context.Context, platform *ocispec.Platform, choose func(ocispec.Index, *ocispec.Platform) ([]ocispec.Descriptor, error)) ([]variant, error) {
	doc, err := l.manifest(ctx, l.image)
	if err != nil {
		return nil, err
	}
	if !oci.IsIndex(doc.MediaType) {
		v, of, err := l.variant(ctx, doc)
		if err == nil && platform != nil && of.Architecture != "" && !platforms.NewMatcher(*platform).Match(of) {
			err = errPlatform(*platform, []ocispec.Platform{of})
		}
		return []variant{v}, err
	}
	x, err := oci.ParseIndex(doc)
	if err != nil {
		return nil, err
	}
	entries, err := choose(x, platform)
	if err != nil {
		return nil, err
	}
	var out []variant
	for _, e := range entries {
		child := l.image
		child.Tag, child.Digest = "", e.Digest
		found, err := l.manifest(ctx, child)
		if err != nil {
			return nil, err
		}
		v, _, err := l.variant(ctx, found)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// imagesOf returns the entry of an index for a platform or, if platform is nil, all entries
// that are images. Entries for the platform unknown/unknown are attestations.
func imagesOf(x ocispec.Index, platform *ocispec.Platform) ([]ocispec.Descriptor, error) {
	if platform != nil {
		e, err := selectEntry(x, platform)
		if err != nil {
			return nil, err
		}
		return []ocispec.Descriptor{*e}, nil
	}
	var out []ocispec.Descriptor
	for _, e := range x.Manifests {
		if isImage(e) {
			out = append(out, e)
		}
	}
	switch {
	case len(out) == 0:
		return nil, fault.NotFound.Newf("The image index has no images")
	case len(out) > limits.ImageLockPlatforms:
		return nil, fault.Invalid.Newf("The image is for %d platforms, but packages are only listed for up to %d at a time; set platform to one of them", len(out), limits.ImageLockPlatforms)
	}
	return out, nil
}

// variant returns the image of a manifest, and its platform.
func (l imageReader) variant(ctx context.Context, doc oci.Document) (variant, ocispec.Platform, error) {
	if !oci.IsManifest(doc.MediaType) {
		return variant{}, ocispec.Platform{}, fault.Invalid.Newf("%s has the media type %q, but packages are only listed for OCI images and Docker images of schema version 2", doc.Digest, fault.Quote(doc.MediaType))
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return variant{}, ocispec.Platform{}, err
	}
	c, err := l.config(ctx, m.Config)
	if err != nil {
		return variant{}, ocispec.Platform{}, err
	}
	of := ocispec.Platform{OS: cmp.Or(c.OS, "linux"), Architecture: c.Architecture, Variant: c.Variant}
	v := variant{platform: platforms.Format(of), digest: doc.Digest.String(), created: c.Created, layers: m.Layers, lock: c.Config.Labels[spec.LockLabel]}
	for _, h := range c.History {
		if !h.EmptyLayer {
			v.history = append(v.history, h.CreatedBy)
		}
	}
	if c.mounted != nil {
		err = v.asMounted(doc, m, *c.mounted)
	}
	return v, of, err
}

// environment returns the index of the environment's layer, which contains the lock.
func (v variant) environment() (int, error) {
	if v.lock == "" {
		return 0, &unknownPackages{"The image has neither a lock of Slipway nor records of installed Conda packages (conda-meta/*.json), so no packages can be listed", true}
	}
	at := slices.Index(v.history, spec.EnvironmentHistory)
	for i, by := range v.history { // the highest one, since the base image may have an environment, too
		if by == spec.EnvironmentHistory {
			at = i
		}
	}
	if at < 0 || len(v.history) != len(v.layers) {
		return 0, &unknownPackages{"The history of the image does not describe its layers, so its packages are not known: the image was changed after it was built", true}
	}
	return at, nil
}

// packages returns the packages of a lock with their layers. Each package has a layer of its
// own, or is one of the small packages that share the layer above the others.
func (v variant) packages(records []lockedRecord) []*inspectv1.ImagePackage {
	if v.mounted != nil {
		var out []*inspectv1.ImagePackage
		for i, blob := range v.mounted.blobs(len(records)) {
			p := records[i].toProto()
			p.Prefix, p.Layer = proto.String(lockPrefix()), rpc.Optional(blob)
			out = append(out, p)
		}
		return out
	}
	layer, shared, group := map[string]string{}, "", ""
	env, err := v.environment()
	known := map[string]bool{}
	for _, r := range records {
		known[r.record().History()] = true
	}
	for i := env - 1; i >= 0 && err == nil && len(layer) < len(records); i-- {
		by := v.history[i]
		switch {
		case known[by] && layer[by] == "":
			layer[by] = v.layers[i].Digest.String()
		case i == env-1:
			shared, group = v.layers[i].Digest.String(), by
		default:
			err = errBase
		}
	}
	if group != spec.GroupHistory(len(records)-len(layer)) {
		shared = ""
	}
	var out []*inspectv1.ImagePackage
	for _, r := range records {
		p := r.toProto()
		p.Prefix = proto.String(lockPrefix())
		p.Layer = rpc.Optional(cmp.Or(layer[r.record().History()], shared))
		out = append(out, p)
	}
	return out
}

// lockPrefix returns the path of the environment that a lock describes.
func lockPrefix() string { return "/" + path.Dir(path.Dir(spec.LockFile)) }

// errBase ends the search for layers of packages at the layers of the base image.
var errBase = errors.New("the layer is of the base image")

// readLock reads the lock of an image from the layer of its environment. It reads at most left
// bytes and subtracts the size of the lock from left. It returns an *unknownPackages error if
// the image has no valid lock.
func (s *Service) readLock(ctx context.Context, who caller.ID, l imageReader, v variant, left *int64) ([]lockedRecord, error) {
	if v.mounted != nil {
		return s.mountedLock(ctx, who.Client(ctx), l, v, left)
	}
	at, err := v.environment()
	if err != nil {
		return nil, err
	}
	layer := v.layers[at]
	if err := checkListable(layer); err != nil {
		return nil, err
	}
	if layer.Size > limits.ImageLockPacked {
		return nil, &unknownPackages{"The layer of the environment is too large to have been built by Slipway, so the packages of the image are not known", false}
	}
	from, err := s.sourceOf(ctx, l, layer)
	if err != nil {
		return nil, err
	}
	turn, err := s.listings.pool.Acquire(ctx, fairshare.Request{Client: who.Client(ctx), Class: fairshare.Short})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	return readLock(ctx, from, layer, v.lock, left)
}
