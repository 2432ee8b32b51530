package build

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// DescribeMirror returns the record of a mirror.
func (s *Service) DescribeMirror(ctx context.Context, req *buildv1.DescribeMirrorRequest) (*buildv1.DescribeMirrorResponse, error) {
	rec, err := s.read(ctx, req.GetMirrorId())
	if errors.Is(err, fault.NotFound) || err == nil && !isMirror(rec.Request) {
		return nil, fault.NotFound.Newf("There is no such mirror")
	}
	if err != nil {
		return nil, err
	}
	b, source, target := s.describe(rec), rec.Request.GetRecipe().GetSource(), rec.Request.GetTarget()
	name := oci.Reference{Registry: source.GetRegistry(), Repository: source.GetRepository(), Tag: target.GetTag(), Digest: digest.Digest(target.GetDigest())}
	return &buildv1.DescribeMirrorResponse{Mirror: &buildv1.Mirror{
		MirrorId: b.BuildId, SourceImage: proto.String(name.String()), TargetImage: b.TargetImage, Digest: proto.String(source.GetReference()),
		Status: b.Status, Succeeded: b.Succeeded, Reason: b.Reason, ReasonCode: b.ReasonCode, Message: b.Message, StartTime: b.StartTime, Duration: b.Duration,
	}}, nil
}

func isMirror(req *buildv1.SubmitBuildRequest) bool {
	return req.GetRecipe().GetEngine() == engine.Mirror
}
