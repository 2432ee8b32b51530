package container

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/layers"
	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// checkLayers verifies layers, the build context and a lock
// (gateway/contract/container-service.md#layers). It charges for uncompressing them,
// whether they are valid or not.
func (s *Service) checkLayers(ctx context.Context, p request.Parsed, packages *request.Packages, who *platformv1.Identity) (request.Contents, error) {
	u := layers.NewUnpacking(s.deps.Turns, caller.Of(who).Client(ctx))
	out, err := s.readLayers(ctx, u, p, packages)
	if charged := s.charge(ctx, who, unpackCost(u.Unpacked())); err == nil {
		err = charged
	}
	return out, err
}

func (s *Service) readLayers(ctx context.Context, u *layers.Unpacking, p request.Parsed, packages *request.Packages) (request.Contents, error) {
	out := request.Contents{Layers: map[string][]byte{}}
	// This is the time limit for all layers at addresses.
	fetching, cancel := context.WithTimeout(ctx, limits.LayerFetchTime)
	defer cancel()
	for i, l := range p.Raw.GetContainerConfig().GetLayers() {
		field := fmt.Sprintf("containerConfig.layers[%d]", i)
		if !request.IsData(l.GetLocation()) {
			if err := s.links.Verify(ctx, fetching, u, field, l); err != nil {
				return out, err
			}
			continue
		}
		raw, err := u.DecodeData(ctx, field, l)
		if err != nil {
			return out, err
		}
		out.Layers[l.GetGzipDigest()] = raw
	}
	if packages != nil && packages.LockURL() != "" && (packages.Query == nil || s.deps.Conda == nil) { // otherwise the conda service fetches it
		if err := s.links.Check(ctx, "packages.entries[0]", packages.LockURL()); err != nil {
			return out, err
		}
	}
	var err error
	switch l := p.Raw.GetBuildContext(); {
	case request.IsData(l.GetLocation()):
		if out.Context, err = u.DecodeData(ctx, "buildContext", l); err == nil {
			err = u.CheckNames(ctx, "buildContext", out.Context)
		}
	case l.GetLocation() != "": // the build verifies it
		err = s.links.Check(ctx, "buildContext.location", l.GetLocation())
	}
	return out, err
}

// keepLayers stores the layers in a request at least until a time.
func (s *Service) keepLayers(ctx context.Context, r request.Resolved, until time.Time) error {
	for d, raw := range r.Data.Layers {
		there, err := s.store.ExtendLayer(ctx, d, until)
		if err != nil {
			return s.sqlFault("storing a layer", err)
		}
		if there {
			continue
		}
		if err := s.charge(ctx, r.Caller, storeCost(len(raw))); err != nil {
			return err
		}
		if err := s.space.Reserve(ctx, int64(len(raw))); err != nil {
			return err
		}
		if err := s.store.PutLayer(ctx, d, raw, until); err != nil {
			return s.sqlFault("storing a layer", err)
		}
	}
	return nil
}

// chunk is the size of a layer's part in one message.
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
