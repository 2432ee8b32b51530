package build

import (
	"context"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
)

// SignSif signs the metadata of the Singularity image that a build has made. A worker may obtain
// a signature of any Singularity image for a build that it has, as it may push any. It cannot
// obtain one of anything else, since the type of the statement is part of what is signed.
func (s *Service) SignSif(ctx context.Context, req *buildv1.SignSifRequest) (*buildv1.SignSifResponse, error) {
	rec, err := s.holder(ctx, req.GetTicket())
	if err != nil {
		return nil, err
	}
	recipe := rec.Request.GetRecipe()
	switch key := recipe.GetSifKey(); {
	case recipe.GetEngine() != engine.Sif || key == "":
		return nil, fault.Denied.Newf("The build %s makes no signed Singularity image", rec.ID)
	case s.deps.Signer == nil || attest.KeyHint(s.deps.Signer.Public()) != key:
		return nil, fault.Conflict.Newf("The key that was to sign the Singularity image is no longer in use; request the image again")
	}
	envelope, err := s.deps.Signer.SignSIF(ctx, req.GetMetadata())
	if err != nil {
		return nil, fault.Invalid.New("The metadata of the Singularity image cannot be signed", err)
	}
	return &buildv1.SignSifResponse{Envelope: envelope}, nil
}
