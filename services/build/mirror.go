package build

import (
	"context"
	"errors"
	"slices"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
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
	state, why, err := s.store.Provenance(ctx, rec.ID)
	if err != nil {
		return nil, s.store.Fault("reading the state of a mirror's provenance", err)
	}
	b, source, target := s.describe(rec), rec.Request.GetRecipe().GetSource(), rec.Request.GetTarget()
	name := oci.Reference{Registry: source.GetRegistry(), Repository: source.GetRepository(), Tag: target.GetTag(), Digest: digest.Digest(target.GetDigest())}
	return &buildv1.DescribeMirrorResponse{Mirror: &buildv1.Mirror{
		MirrorId: b.BuildId, SourceImage: proto.String(name.String()), TargetImage: b.TargetImage, Digest: proto.String(source.GetReference()),
		Status: b.Status, Succeeded: b.Succeeded, Reason: b.Reason, ReasonCode: b.ReasonCode, Message: b.Message, StartTime: b.StartTime, Duration: b.Duration,
		Provenance: rpc.Optional(state), ProvenanceMessage: rpc.Optional(why),
	}}, nil
}

// NoteMirrorProvenance stores whether the provenance of a mirror is at its target.
func (s *Service) NoteMirrorProvenance(ctx context.Context, req *buildv1.NoteMirrorProvenanceRequest) (*buildv1.NoteMirrorProvenanceResponse, error) {
	state, why := req.GetState(), s.deps.Keychain.Publish(fault.Clip(req.GetMessage(), limits.MirrorNote))
	if !slices.Contains([]string{store.ProvenancePending, store.ProvenanceAttached, store.ProvenanceFailed}, state) || (state == store.ProvenanceAttached) != (why == "") {
		return nil, fault.Invalid.Newf("The state of the provenance is invalid")
	}
	if !isID(req.GetBuildId()) {
		return nil, store.UnknownBuild(nil)
	}
	noted, err := s.store.NoteProvenance(ctx, req.GetBuildId(), state, why)
	if err != nil {
		return nil, s.store.Fault("storing the state of a mirror's provenance", err)
	}
	if !noted {
		return nil, fault.NotFound.Newf("There is no such mirror")
	}
	return &buildv1.NoteMirrorProvenanceResponse{}, nil
}

// copied returns what a mirror has copied; nil for another build. It only has the digest of a source
// that required a login, since the readers of the copy may not know its name.
func (s *Service) copied(ctx context.Context, rec store.Record) (*buildv1.Copied, error) {
	if !isMirror(rec.Request) {
		return nil, nil //nolint:nilnil // other builds copy nothing
	}
	read, err := s.store.Inputs(ctx, rec.ID)
	if err != nil {
		return nil, s.store.Fault("reading the inputs of a mirror", err)
	}
	out := &buildv1.Copied{Source: &containerv1.Source{Reference: rec.Request.GetRecipe().GetSource().GetReference()}, ContentDigest: rec.Request.GetContentDigest()}
	for _, in := range read.GetInputs() {
		if in.GetDigest() == out.GetSource().GetReference() && in.GetRegistry() != "" { // it is public
			out.Source = rec.Request.GetRecipe().GetSource()
		}
	}
	if !rec.Started.IsZero() {
		out.StartedAt = timestamppb.New(rec.Started)
	}
	if !rec.IsPending() {
		out.FinishedAt = timestamppb.New(rec.Completed)
	}
	return out, nil
}

func isMirror(req *buildv1.SubmitBuildRequest) bool {
	return req.GetRecipe().GetEngine() == engine.Mirror
}
