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
	"slipway.dev/services/builder/layering"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// environment is one image on its way.
type environment struct {
	*Engine
	job     jobs.Job
	out     jobs.Output
	records []conda.Record
	from    *remote.Source
	to      *remote.Target
	doors   doors
}

// errLayerGone is a layer that was removed before it was sent.
var errLayerGone = errors.New("a layer is gone")

// put makes the image, and again where a layer that was there a moment ago has made
// room for others.
func (e *environment) put(ctx context.Context) (string, error) {
	digest, err := e.make(ctx)
	for n := 0; n < limits.CondaLosses && errors.Is(err, errLayerGone) && ctx.Err() == nil; n++ {
		digest, err = e.make(ctx)
	}
	return digest, err
}

// make makes and pushes the image.
func (e *environment) make(ctx context.Context) (string, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	m := e.maker(stop)
	packages, err := m.Packages(ctx, e.records)
	if cause := context.Cause(ctx); errors.As(cause, new(*jobs.Failure)) { // what the maker has seen
		return "", cause
	}
	if err != nil {
		return "", blamed(err)
	}
	left, err := e.remainder(packages)
	if err != nil {
		return "", err
	}
	layers, err := m.Layers(ctx, e.records, packages)
	if err != nil {
		return "", lostLayer(err)
	}
	image, err := e.image(ctx, packages, layers)
	if err != nil {
		return "", err
	}
	if left.why == "" {
		return e.finish(ctx, m, image)
	}
	pushed, err := e.push(ctx, m, image, false)
	if err != nil {
		return "", err
	}
	return "", e.needed(left, image, pushed)
}

// lostLayer tells a layer that has to be made again from other failures.
func lostLayer(err error) error {
	if errors.Is(err, fault.NotFound) {
		return fmt.Errorf("%w: %w", errLayerGone, err)
	}
	return blamed(err)
}

// maker makes the layers, and says how far it is.
func (e *environment) maker(stop context.CancelCauseFunc) *layering.Maker {
	var came atomic.Int64
	made, missing := 0, 0
	return &layering.Maker{
		Fetch: &layering.Fetcher{Client: e.client, Authorize: e.doors.authorize, Hosts: &e.hosts, Dir: e.scratch(), Progress: func(n int64) {
			if came.Add(n) > e.o.Disk && e.o.Disk > 0 {
				stop(e.tooLarge())
			}
		}},
		Store: e.store, Scope: e.scope(), Scratch: e.scratch(), Compression: layersOf(e.job.Recipe.GetCompression()), Share: e.share(),
		Known: func(there, n int) {
			missing = n
			text := fmt.Sprintf("%d of %d packages are there as layers", there, there+n)
			if n > 0 {
				text += fmt.Sprintf("; fetching the other %d", n)
			}
			e.out.Print("fetch", text)
		},
		Made: func(rec conda.Record, p layering.Package) {
			made++
			e.out.Print("", fmt.Sprintf("%d of %d: %s %s %s, %s; %s fetched so far", made, missing, rec.Name, rec.Version, rec.Build, megabytes(p.Size), megabytes(came.Load())))
		},
	}
}

// share has other workers make what they make already; nil where none can say so.
func (e *environment) share() *layering.Share {
	if e.o.Claims == nil {
		return nil
	}
	return &layering.Share{
		Claims: e.o.Claims, Target: &repository{Target: e.to, base: e.from}, Repository: e.job.Place(),
		Waits: func(n int) {
			e.out.Print("", fmt.Sprintf("Waiting for another worker that makes %d layers", n))
		},
	}
}

// scope keeps layers of a channel that is read with a login for who has one.
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
	specs := wanted(e.records)
	image, err := layering.Environment{
		Base: base, Platform: platform, Title: fault.Clip(strings.Join(specs, " "), titleBytes), Specs: specs, Records: e.records, Packages: packages, Layers: layers,
		Compression: layersOf(e.job.Recipe.GetCompression()),
	}.Image()
	if err != nil {
		return layering.Image{}, blamed(err)
	}
	if len(image.NotRun) > 0 {
		e.out.Print("", "What these scripts would set in a shell is not set in the image: "+strings.Join(image.NotRun, ", "))
	}
	return image, nil
}

// finish puts the configuration of a frozen image on top, and pushes the image.
func (e *environment) finish(ctx context.Context, m *layering.Maker, image layering.Image) (string, error) {
	if add := oci.AdditionOf(e.job.Recipe.GetConfig()); !add.IsZero() {
		e.out.Print("", "Putting the configuration on top of the image")
		augmented, err := oci.Augment(ctx, made{image.Image}, image.Manifest, add, image.Platform)
		if err != nil {
			return "", blamed(err)
		}
		image.Image = augmented.Images[0]
		if err := e.to.AddLayers(ctx, e.job.Recipe.GetConfig(), image.Platform); err != nil {
			return "", e.to.Failed(ctx, notPushed, err)
		}
	}
	return e.push(ctx, m, image, true)
}

// titleBytes is how long the title of an image may be.
const titleBytes = 200

// wanted are the packages that no other of the lock needs, e.g. "samtools=1.20": what
// somebody must have asked for. How they wrote it must not show in the image.
func wanted(records []conda.Record) []string {
	needed := map[string]bool{}
	for _, r := range records {
		for _, name := range r.Needs() {
			needed[name] = needed[name] || r.Name != "python" || name != "pip" // they need each other
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

// base is the image that the packages are put on.
func (e *environment) base(ctx context.Context) (layering.Base, error) {
	image, err := e.from.With(ctx, nil)
	src := e.job.Recipe.GetSource()
	return layering.Base{
		Name: src.GetRegistry() + "/" + src.GetRepository(), Digest: digest.Digest(src.GetReference()), Manifest: image.Manifest, Config: image.Config.Bytes,
	}, err
}

// made reads the documents of an image that is not pushed yet.
type made struct{ oci.Image }

// Manifest implements oci.Source.
func (m made) Manifest(context.Context, digest.Digest) (oci.Document, error) {
	return m.Image.Manifest, nil
}

// Config implements oci.Source.
func (m made) Config(context.Context, ocispec.Descriptor) ([]byte, error) {
	return m.Image.Config.Bytes, nil
}

const notPushed = "The image could not be pushed"

// push sends what is not there, the name last; without a name, the image is had by its
// digest alone.
func (e *environment) push(ctx context.Context, m *layering.Maker, image layering.Image, named bool) (string, error) {
	name := e.job.Place()
	if named {
		name += ":" + e.job.Target.GetTag()
	}
	e.out.Print("push", fmt.Sprintf("Pushing %d layers of packages on %s to %s", len(image.Layers), e.from.Name, name))
	pushed, err := m.Push(ctx, &repository{Target: e.to, base: e.from, nameless: !named}, image)
	if errors.Is(err, layering.ErrGone) {
		return "", fmt.Errorf("%w: %w", errLayerGone, err)
	}
	if err != nil {
		return "", e.to.Failed(ctx, notPushed, err)
	}
	m.Note(ctx, e.records, image)
	e.out.Print("", fmt.Sprintf("%d layers were there; %d were sent, %s: %s", pushed.Layers-pushed.Sent, pushed.Sent, megabytes(pushed.SentBytes), pushed.Root.Digest))
	return pushed.Root.Digest.String(), nil
}

// layersOf is for layers of packages. Layers of an estargz image are none of these.
func layersOf(c *containerv1.Compression) layering.Compression {
	out := layering.Gzip
	if c.GetMode() == string(layering.Zstd) {
		out = layering.Zstd
	}
	if c != nil && c.Level != nil {
		return out.At(int(c.GetLevel()))
	}
	return out
}
