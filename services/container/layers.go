package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/layers"
	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

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
	u := layers.NewUnpacking(s.unpacking)
	out, err := s.readLayers(ctx, u, r)
	out.who = who
	if charged := s.charge(ctx, who, unpackCost(u.Spent())); err == nil {
		err = charged
	}
	return out, err
}

func (s *Service) readLayers(ctx context.Context, u *layers.Unpacking, r request.Request) (contents, error) {
	out := contents{layers: map[string][]byte{}}
	// Layers at addresses have this long in all.
	fetching, cancel := context.WithTimeout(ctx, limits.LayerFetchTime)
	defer cancel()
	for i, l := range r.Raw.GetContainerConfig().GetLayers() {
		field := fmt.Sprintf("containerConfig.layers[%d]", i)
		if !strings.HasPrefix(l.GetLocation(), request.DataPrefix) {
			if err := s.links.Verify(ctx, fetching, u, field, l); err != nil {
				return out, err
			}
			continue
		}
		raw, err := u.DecodeData(ctx, field, l)
		if err != nil {
			return out, err
		}
		out.layers[l.GetGzipDigest()] = raw
	}
	if r.Recipe != nil && r.Recipe.LockURL != "" {
		if err := s.links.Check(ctx, "packages.entries[0]", r.Recipe.LockURL); err != nil {
			return out, err
		}
	}
	var err error
	switch l := r.Raw.GetBuildContext(); {
	case strings.HasPrefix(l.GetLocation(), request.DataPrefix):
		out.context, err = u.DecodeData(ctx, "buildContext", l)
	case l.GetLocation() != "": // the build verifies it
		err = s.links.Check(ctx, "buildContext.location", l.GetLocation())
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

// chunk is how much of a layer goes into one message.
const chunk = 1 << 20

// GetLayer streams the content of a `data:` layer.
func (s *Service) GetLayer(req *containerv1.GetLayerRequest, stream grpc.ServerStreamingServer[containerv1.GetLayerResponse]) error {
	content, err := s.store.Layer(stream.Context(), req.GetGzipDigest())
	if errors.Is(err, fault.NotFound) {
		return err
	}
	if err != nil {
		return s.sqlFault("reading a layer", err)
	}
	for len(content) > 0 {
		n := min(len(content), chunk)
		if err := stream.Send(&containerv1.GetLayerResponse{Chunk: content[:n]}); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}
