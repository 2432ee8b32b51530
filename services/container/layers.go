package container

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// decodeData reads the content of a `data:` layer and holds it against what the
// request says of it. fault.Invalid, naming the field, where they differ.
func (u *unpacking) decodeData(ctx context.Context, field string, l *containerv1.Layer) ([]byte, error) {
	raw, err := request.Decode(strings.TrimPrefix(l.GetLocation(), request.DataPrefix))
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
// (gateway/contract/container-service.md#layers). What was uncompressed for it counts,
// whether or not it was right.
func (s *Service) checkLayers(ctx context.Context, r request.Request, who *platformv1.Identity) (contents, error) {
	u := &unpacking{turns: s.unpacking, left: limits.LayersExpanded}
	out, err := s.readLayers(ctx, u, r)
	out.who = who
	if charged := s.charge(ctx, who, unpackCost(limits.LayersExpanded-u.left)); err == nil {
		err = charged
	}
	return out, err
}

func (s *Service) readLayers(ctx context.Context, u *unpacking, r request.Request) (contents, error) {
	out := contents{layers: map[string][]byte{}}
	// Layers at addresses have this long in all.
	fetching, cancel := context.WithTimeout(ctx, limits.LayerFetchTime)
	defer cancel()
	for i, l := range r.Raw.GetContainerConfig().GetLayers() {
		field := fmt.Sprintf("containerConfig.layers[%d]", i)
		if !strings.HasPrefix(l.GetLocation(), request.DataPrefix) {
			if err := s.links.verify(ctx, fetching, u, field, l); err != nil {
				return out, err
			}
			continue
		}
		raw, err := u.decodeData(ctx, field, l)
		if err != nil {
			return out, err
		}
		out.layers[l.GetGzipDigest()] = raw
	}
	if r.Recipe != nil && r.Recipe.LockURL != "" {
		if err := s.links.check(ctx, "packages.entries[0]", r.Recipe.LockURL); err != nil {
			return out, err
		}
	}
	var err error
	switch l := r.Raw.GetBuildContext(); {
	case strings.HasPrefix(l.GetLocation(), request.DataPrefix):
		out.context, err = u.decodeData(ctx, "buildContext", l)
	case l.GetLocation() != "": // the build verifies it
		err = s.links.check(ctx, "buildContext.location", l.GetLocation())
	}
	return out, err
}

// keepLayers stores contents until then at least.
func (s *Service) keepLayers(ctx context.Context, data contents, until time.Time) error {
	for d, raw := range data.layers {
		there, err := s.store.ExtendLayer(ctx, d, until)
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
		if err := s.store.PutLayer(ctx, d, raw, until); err != nil {
			return s.sqlFault("storing a layer", err)
		}
	}
	return nil
}
