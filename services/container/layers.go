package container

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// decodeData reads the content of a `data:` layer and holds it against what the
// request says of it. fault.Invalid, naming the field, where they differ.
func (u *unpacking) decodeData(ctx context.Context, field string, l *containerv1.Layer) ([]byte, error) {
	raw, err := decodeBase64(strings.TrimPrefix(l.GetLocation(), dataPrefix))
	if err != nil {
		return nil, fault.Invalid.New(field+".location: what follows data: must be base64", err)
	}
	if int64(len(raw)) != l.GetGzipSize() {
		return nil, fault.Invalid.Newf("%s.gzipSize is %d, but the content has %d bytes", field, l.GetGzipSize(), len(raw))
	}
	if d := digest.FromBytes(raw); d.String() != l.GetGzipDigest() {
		return nil, fault.Invalid.Newf("%s.gzipDigest does not match the content, whose digest is %s", field, d)
	}
	tar, err := u.tarDigest(ctx, raw)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fault.Invalid.New(field+".location: the content is not a gzip file, or uncompressed it holds more than a hundred times its length, or all layers of the request together more than 1 GiB", err)
	}
	if tar.String() != l.GetTarDigest() {
		return nil, fault.Invalid.Newf("%s.tarDigest does not match the uncompressed content, whose digest is %s", field, tar)
	}
	return raw, nil
}

// links knows which layer URLs answered lately.
type links struct {
	client *upstream.Client
	good   *otter.Cache[string, struct{}]
}

func newLinks(c *upstream.Client) *links {
	return &links{client: c, good: otter.Must(&otter.Options[string, struct{}]{
		MaximumSize:      10_000,
		ExpiryCalculator: otter.ExpiryWriting[string, struct{}](10 * time.Minute),
	})}
}

// check asks an address that a field names for its first byte.
func (l *links) check(ctx context.Context, field, url string) error {
	if _, ok := l.good.GetIfPresent(url); ok {
		return nil
	}
	if err := l.client.Probe(ctx, url); err != nil {
		e, ok := fault.As(err)
		if !ok {
			return err
		}
		return fault.Invalid.New(field+": "+e.Public, e.Cause)
	}
	l.good.Set(url, struct{}{})
	return nil
}

// contents are the bytes that came with a request.
type contents struct {
	// layers are those of the image, by gzipDigest.
	layers map[string][]byte
	// context is the build context's; nil where it lies at an address, or is none.
	context []byte
	// who sent them.
	who *platformv1.Identity
}

// checkLayers checks layers, the build context and a lock
// (gateway/contract/container-service.md#layers).
func (s *Service) checkLayers(ctx context.Context, r request, who *platformv1.Identity) (contents, error) {
	out := contents{layers: map[string][]byte{}, who: who}
	u := &unpacking{turns: s.unpacking, left: limits.LayersExpanded}
	for i, l := range r.raw.GetContainerConfig().GetLayers() {
		raw, err := s.checkContent(ctx, u, fmt.Sprintf("containerConfig.layers[%d]", i), l)
		if err != nil {
			return out, err
		}
		if raw != nil {
			out.layers[l.GetGzipDigest()] = raw
		}
	}
	if r.recipe != nil && r.recipe.lockURL != "" {
		if err := s.links.check(ctx, "packages.entries[0]", r.recipe.lockURL); err != nil {
			return out, err
		}
	}
	l := r.raw.GetBuildContext()
	if l.GetLocation() != "" {
		var err error
		if out.context, err = s.checkContent(ctx, u, "buildContext", l); err != nil {
			return out, err
		}
	}
	return out, s.charge(ctx, who, unpackCost(limits.LayersExpanded-u.left))
}

// checkContent returns the content of a `data:` layer; nil for one at an address
// that answers.
func (s *Service) checkContent(ctx context.Context, u *unpacking, field string, l *containerv1.Layer) ([]byte, error) {
	if strings.HasPrefix(l.GetLocation(), dataPrefix) {
		return u.decodeData(ctx, field, l)
	}
	return nil, s.links.check(ctx, field+".location", l.GetLocation())
}

// keepLayers stores contents until then at least.
func (s *Service) keepLayers(ctx context.Context, data contents, until time.Time) error {
	for d, raw := range data.layers {
		there, err := s.store.extendLayer(ctx, d, until)
		if err != nil {
			return s.sqlFault("storing a layer", err)
		}
		if there {
			continue
		}
		if err := s.charge(ctx, data.who, storeCost(len(raw))); err != nil {
			return err
		}
		if err := s.space.Take(ctx, int64(len(raw))); err != nil {
			return err
		}
		if err := s.store.putLayer(ctx, d, raw, until); err != nil {
			return s.sqlFault("storing a layer", err)
		}
	}
	return nil
}

// withoutContents is the configuration without the contents: what is kept with a request.
// nil when there is nothing in it.
func withoutContents(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if c == nil || oci.AdditionOf(c).IsZero() {
		return nil
	}
	out := &containerv1.ContainerConfig{
		Entrypoint: c.GetEntrypoint(), Cmd: c.GetCmd(), Env: c.GetEnv(), WorkingDir: c.GetWorkingDir(),
	}
	for _, l := range c.GetLayers() {
		out.Layers = append(out.Layers, layerWithoutContent(l))
	}
	return out
}

func layerWithoutContent(l *containerv1.Layer) *containerv1.Layer {
	location := l.GetLocation()
	if strings.HasPrefix(location, dataPrefix) {
		location = dataPrefix
	}
	return &containerv1.Layer{
		Location: location, GzipDigest: l.GetGzipDigest(), GzipSize: l.GzipSize, TarDigest: l.GetTarDigest(),
	}
}
