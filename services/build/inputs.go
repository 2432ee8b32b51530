package build

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
)

// DescribeInputs returns what a manifest was built from. Anyone who can pull the image may see
// it, so it contains nothing that is private to a user: no locks with private channels, and no
// names of images that a login was required for.
func (s *Service) DescribeInputs(ctx context.Context, req *buildv1.DescribeInputsRequest) (*buildv1.DescribeInputsResponse, error) {
	rec, err := s.maker(ctx, req.GetBuildId(), req.GetDigest())
	if err != nil {
		return nil, err
	}
	described, err := s.DescribeBuild(ctx, &buildv1.DescribeBuildRequest{BuildId: rec.ID})
	if err != nil {
		return nil, err
	}
	full, recipe := described.GetBuild(), rec.Request.GetRecipe()
	out := &buildv1.DescribeInputsResponse{
		Build:  &buildv1.Build{Platform: full.Platform, ContentDigest: full.ContentDigest},
		Engine: recipe.GetEngine(), Format: recipe.GetFormat(), ContextDigest: recipe.GetContext().GetGzipDigest(),
	}
	isPrivate, err := s.addInputs(ctx, out, rec)
	if isPrivate {
		for i, image := range out.GetImages() {
			out.Images[i] = &containerv1.Source{Reference: image.GetReference()}
		}
	}
	if err != nil || isPrivate || rec.Request.GetScope() != "" {
		return out, err
	}
	// The same content is built separately for each user of a scope: their statements are equal only
	// without the record of the build.
	out.Build.BuildId, out.StartedAt, out.FinishedAt = full.BuildId, timestamppb.New(rec.Started), timestamppb.New(rec.Completed)
	if recipe.GetEngine() != engine.Conda { // the packages describe it, however the request spelled them
		out.Build.ContainerFile = full.ContainerFile
	}
	return out, nil
}

// maker returns the first build of a content that made a manifest, so that the result does not
// depend on which of several equal builds is known.
func (s *Service) maker(ctx context.Context, id, digest string) (store.Record, error) {
	rec, err := s.read(ctx, id)
	if err != nil {
		return rec, err
	}
	first, err := s.store.FirstWith(ctx, rec.Request.GetContentDigest(), rec.Request.GetScope(), digest)
	if !errors.Is(err, fault.NotFound) {
		if err != nil {
			err = s.store.Fault("looking up the build of a manifest", err)
		}
		return first, err
	}
	for _, part := range rec.Request.GetPartIds() { // one platform of an index
		if first, err = s.maker(ctx, part, digest); !errors.Is(err, fault.NotFound) {
			return first, err
		}
	}
	return rec, fault.NotFound.Newf("The build did not make this manifest")
}

// addInputs adds the images and packages of a build, or of the builds whose images it uses. It
// reports whether packages were read with a login, which are then not added. It returns
// fault.NotFound if the record of a build was deleted: a list must not look complete if it is not.
func (s *Service) addInputs(ctx context.Context, out *buildv1.DescribeInputsResponse, rec store.Record) (isPrivate bool, err error) {
	ids := rec.Request.GetPartIds()
	if source := rec.Request.GetRecipe().GetSource(); source != nil && len(ids) == 0 {
		image := &containerv1.Source{Reference: source.GetReference()}
		if rec.Request.GetScope() == "" && !s.deps.Keychain.IsBuildRepository(source.GetRegistry(), source.GetRepository()) {
			image = source
		}
		if !slices.ContainsFunc(out.GetImages(), func(i *containerv1.Source) bool { return proto.Equal(i, image) }) {
			out.Images = append(out.Images, image)
		}
	}
	if len(ids) == 0 {
		return s.addLock(ctx, out, rec)
	}
	for _, id := range ids {
		part, err := s.read(ctx, id)
		if err != nil {
			return false, err
		}
		private, err := s.addInputs(ctx, out, part)
		if err != nil {
			return false, err
		}
		isPrivate = isPrivate || private
	}
	return isPrivate, nil
}

// addLock adds the packages of a build, and reports whether they were read with a login.
func (s *Service) addLock(ctx context.Context, out *buildv1.DescribeInputsResponse, rec store.Record) (isPrivate bool, err error) {
	if d := rec.Request.GetRecipe().GetLockDigest(); d != "" {
		out.LockDigests = append(out.LockDigests, d)
	}
	lock, err := s.store.Lock(ctx, rec.ID)
	switch {
	case errors.Is(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, s.store.Fault("reading a lock", err)
	case lock.GetPrivate():
		return true, nil
	}
	out.Locks = append(out.Locks, lock.GetAnswer().GetLocks()...)
	return false, nil
}
