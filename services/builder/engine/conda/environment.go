package conda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// environment is one image, or one environment without an image, that is being built.
type environment struct {
	*Engine
	job           jobs.Job
	out           jobs.Output
	records       []spec.Record
	from          *remote.Source // nil without an image
	to            *remote.Target
	channelLogins channelLogins
	// store has the layers. If isAlone is set, none are shared with other workers or the registry.
	store   *layering.Folder
	isAlone bool
}

// errLayerEvicted is returned for a layer that was evicted before it was pushed.
var errLayerEvicted = errors.New("a layer was evicted")

// put builds the image, and repeats that if a layer was evicted in the meantime.
func (e *environment) put(ctx context.Context) (string, error) {
	digest, err := e.make(ctx)
	for n := 0; n < limits.CondaLosses && errors.Is(err, errLayerEvicted) && ctx.Err() == nil; n++ {
		digest, err = e.make(ctx)
	}
	return digest, err
}

// make builds and pushes the image.
func (e *environment) make(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := e.layerBuilder(stop)
	if err := e.storePackages(ctx, m.Fetch); err != nil {
		return "", err
	}
	defer func() { e.job.Shared(m.Share.Keys()) }()
	packages, err := m.Packages(ctx, e.records)
	if cause := context.Cause(ctx); errors.As(cause, new(*jobs.Failure)) { // the packages are too large: see layerBuilder
		return "", cause
	}
	if err != nil {
		return "", asFailure(err)
	}
	left, err := e.remainder(packages)
	if err != nil {
		return "", err
	}
	if isStandalone(e.job) {
		return e.makeStandalone(ctx, m, packages, left)
	}
	layers, err := m.Layers(ctx, e.records, packages)
	if err != nil {
		return "", asBuildError(err)
	}
	image, err := e.image(ctx, packages, layers)
	if err != nil {
		return "", err
	}
	if left.why == "" {
		pushed, err := e.finish(ctx, m, packages, image)
		if err == nil {
			e.index(ctx, packages)
		}
		return pushed, err
	}
	if e.job.Recipe.GetMount() {
		return "", cannotMount(left.why)
	}
	if mode := e.job.Recipe.GetCompression().GetMode(); slices.Contains([]string{modeChunked, modeErofs, modeErofsZstd}, mode) {
		return "", jobs.Build.Failure(left.why+". Layers of steps cannot be "+mode+"; request the image with buildCompression.mode estargz or zstd", nil)
	}
	pushed, err := e.push(ctx, m, image, false)
	if err != nil {
		return "", err
	}
	e.index(ctx, packages)
	return "", e.needed(left, image, pushed)
}

// asBuildError returns errLayerEvicted if err means that a layer has to be built again, and
// converts other errors with asFailure.
func asBuildError(err error) error {
	if errors.Is(err, fault.NotFound) {
		return fmt.Errorf("%w: %w", errLayerEvicted, err)
	}
	return asFailure(err)
}

// layerBuilder returns a builder of the layers that prints its progress.
func (e *environment) layerBuilder(stop context.CancelCauseFunc) *layering.Builder {
	var received atomic.Int64
	built, missing := 0, 0
	var copies func(context.Context) layering.Copy
	if e.job.Recipe.GetSifParts() && e.o.Parts != nil {
		copies = func(ctx context.Context) layering.Copy { return e.o.Parts.Copy(ctx, e.job.Repository().Host) }
	}
	return &layering.Builder{
		Fetch: &layering.Fetcher{Stored: e.storedPackage(), Client: e.client, Authorize: e.channelLogins.authorize, Hosts: &e.hosts, Dir: e.scratch(), Progress: func(n int64) {
			if received.Add(n) > e.o.Disk && e.o.Disk > 0 {
				stop(e.tooLarge())
			}
		}},
		Store: e.store, Scope: e.scope(), Scratch: e.scratch(), Compression: e.compression(), Share: e.share(), Ztocs: e.job.Recipe.GetSoci(), Copies: copies,
		Known: func(there, n int) {
			missing = n
			text := fmt.Sprintf("%d of %d packages exist as %s", there, there+n, e.parts())
			if n > 0 {
				text += fmt.Sprintf("; fetching the other %d", n)
			}
			e.out.Print("fetch", text)
		},
		OnBuilt: func(rec spec.Record, p layering.Package) {
			built++
			e.out.Print("", fmt.Sprintf("%d of %d: %s %s %s, %s; %s fetched so far", built, missing, rec.Name, rec.Version, rec.Build, megabytes(p.Size), megabytes(received.Load())))
		},
	}
}

// share returns how layers are shared with other workers, or nil if they are not shared.
func (e *environment) share() *layering.Share {
	if e.o.Claims == nil || e.isAlone {
		return nil
	}
	return &layering.Share{
		Claims: e.o.Claims, Target: &repository{Target: e.to, base: e.from}, Repository: e.job.RepositoryName(),
		Waits: func(n int) {
			e.out.Print("", fmt.Sprintf("Waiting for another worker that builds %d %s", n, e.parts()))
		},
	}
}

// scope restricts the layers of private channels to builds with a login for them.
func (e *environment) scope() string {
	if len(e.job.PrivateChannels) == 0 {
		return ""
	}
	return e.job.CacheScope
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// image puts the packages on the base image.
func (e *environment) image(ctx context.Context, packages []layering.Package, layers []layering.Layer) (layering.Image, error) {
	base, err := e.base(ctx)
	if err != nil {
		return layering.Image{}, err
	}
	platform, err := oci.ParsePlatform(e.job.Recipe.GetPlatform())
	if err != nil {
		return layering.Image{}, err
	}
	packagesOnly, _ := spec.Split(e.records)
	image, err := layering.Environment{
		Base: base, Platform: platform, Title: fault.Clip(strings.Join(rootPackages(e.records), " "), titleBytes), Specs: rootPackages(packagesOnly), Records: e.records, Packages: packages, Layers: layers, Variables: e.job.Recipe.GetVariables(),
		Compression: e.compression(), Scratch: e.scratch(),
	}.Image(ctx)
	if err != nil {
		return layering.Image{}, asFailure(err)
	}
	if len(image.NotRun) > 0 {
		e.out.Print("", "The image does not set the variables of these activation scripts: "+strings.Join(image.NotRun, ", "))
	}
	return image, nil
}

// finish applies the configuration of a frozen image and pushes the image, with the SOCI index and the
// artifact to mount it that the recipe requires. The image gets its name last, so that every image with
// a name has them.
func (e *environment) finish(ctx context.Context, m *layering.Builder, packages []layering.Package, image layering.Image) (string, error) {
	image, err := e.configured(ctx, image)
	if err != nil {
		return "", err
	}
	if add := oci.NewAugmentation(e.job.Recipe.GetConfig()); !add.IsZero() {
		if err := e.to.AddLayers(ctx, e.job.Recipe.GetConfig(), image.Platform); err != nil {
			return "", e.to.Failed(ctx, notPushed, err)
		}
	}
	image, index, err := e.withSoci(ctx, m, packages, image)
	if err != nil {
		return "", err
	}
	env, err := e.withMount(ctx, m, packages, image)
	if err != nil {
		return "", err
	}
	isAlone := index == nil && env == nil && !e.job.Recipe.GetKeepPackages()
	pushed, err := e.push(ctx, m, image, isAlone)
	if err != nil || isAlone {
		return pushed, err
	}
	to := &repository{Target: e.to, base: e.from}
	if err := e.pushMountable(ctx, m, to, env); err != nil {
		return "", err
	}
	if err := e.pushKept(ctx, to, image.Manifest); err != nil {
		return "", err
	}
	root, err := e.pushSoci(ctx, m, to, packages, image, index)
	if err != nil {
		return "", err
	}
	return root.Digest.String(), e.to.Failed(ctx, notPushed, to.Manifest(ctx, root, true))
}

// configured applies the configuration of a frozen image.
func (e *environment) configured(ctx context.Context, image layering.Image) (layering.Image, error) {
	add := oci.NewAugmentation(e.job.Recipe.GetConfig())
	if add.IsZero() {
		return image, nil
	}
	e.out.Print("", "Putting the configuration on top of the image")
	augmented, err := oci.Augment(ctx, unpushedImage{image.Image}, image.Manifest, add, image.Platform)
	if err != nil {
		return image, asFailure(err)
	}
	image.Image = augmented.Images[0]
	return image, nil
}

// titleBytes limits the length of an image's title.
const titleBytes = 200

// rootPackages returns the packages that no other package of the lock depends on, for
// example "samtools=1.20". The image lists them as the requested packages, since it must
// not show how the request spelled these.
func rootPackages(records []spec.Record) []string {
	needed := map[string]bool{}
	for _, r := range records {
		for _, name := range r.Needs() {
			needed[name] = needed[name] || r.Name != "python" || name != "pip" // they depend on each other
		}
	}
	var out []string
	for _, r := range records {
		if !needed[r.Name] {
			out = append(out, r.Name+"="+r.Version)
		}
	}
	slices.Sort(out)
	return out
}

// base returns the base image.
func (e *environment) base(ctx context.Context) (layering.Base, error) {
	image, err := e.from.With(ctx, nil)
	src := e.job.Recipe.GetSource()
	return layering.Base{
		Name: src.GetRegistry() + "/" + src.GetRepository(), Digest: digest.Digest(src.GetReference()), Manifest: image.Manifest, Config: image.Config.Bytes,
	}, err
}

// An unpushedImage is the oci.Source of an image that is not pushed yet.
type unpushedImage struct{ oci.Image }

// Manifest implements oci.Source.
func (m unpushedImage) Manifest(context.Context, digest.Digest) (oci.Document, error) {
	return m.Image.Manifest, nil
}

// Config implements oci.Source.
func (m unpushedImage) Config(context.Context, ocispec.Descriptor) ([]byte, error) {
	return m.Image.Config.Bytes, nil
}

const notPushed = "The image could not be pushed"

// push pushes what the repository does not have, and the tag last. If named is false, the
// image is pushed by digest only.
func (e *environment) push(ctx context.Context, m *layering.Builder, image layering.Image, named bool) (string, error) {
	name := e.job.RepositoryName()
	if named {
		name += ":" + e.job.Target.GetTag()
	}
	e.out.Print("push", fmt.Sprintf("Pushing %d layers of packages on %s to %s", len(image.Layers), e.from.Name, name))
	pushed, err := m.Push(ctx, &repository{Target: e.to, base: e.from, untagged: !named}, image)
	if errors.Is(err, layering.ErrEvicted) {
		return "", fmt.Errorf("%w: %w", errLayerEvicted, err)
	}
	if err != nil {
		return "", e.to.Failed(ctx, notPushed, err)
	}
	m.Note(ctx, e.records, image)
	e.out.Print("", fmt.Sprintf("%d layers existed; %d were sent, %s: %s", pushed.Layers-pushed.Sent, pushed.Sent, megabytes(pushed.SentBytes), pushed.Root.Digest))
	return pushed.Root.Digest.String(), nil
}

// Compressions that requests cannot have for steps.
const (
	modeChunked   = "zstd:chunked"
	modeErofs     = "erofs"
	modeErofsZstd = "erofs+zstd"
)

// layersOf returns the compression of package layers.
func layersOf(c *containerv1.Compression) layering.Compression {
	out := map[string]layering.Compression{"zstd": layering.Zstd, "estargz": layering.Estargz, modeChunked: layering.ZstdChunked, modeErofs: layering.Erofs, modeErofsZstd: layering.ErofsZstd}[c.GetMode()]
	if out == "" {
		out = layering.Gzip
	}
	if c != nil && c.Level != nil {
		return out.At(int(c.GetLevel()))
	}
	return out
}
