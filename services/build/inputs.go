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
	if out.Rebuilt, err = s.rebuilt(ctx, rec); err != nil {
		return nil, err
	}
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
	if err := s.addRead(ctx, out, rec); err != nil {
		return false, err
	}
	ids := rec.Request.GetPartIds()
	if len(ids) == 0 {
		for _, recipe := range []*buildv1.Recipe{rec.Request.GetRecipe(), rec.Request.GetSubmittedRecipe()} {
			if source := recipe.GetSource(); source != nil {
				s.addImage(out, source, rec.Request.GetScope() == "")
			}
		}
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

// addRead adds the images and layers that the worker of a build has read, if they are not in its recipe.
func (s *Service) addRead(ctx context.Context, out *buildv1.DescribeInputsResponse, rec store.Record) error {
	kind := rec.Request.GetRecipe().GetEngine()
	if kind != engine.BuildKit && kind != engine.Sif {
		return nil
	}
	read, err := s.store.Inputs(ctx, rec.ID)
	if err != nil {
		return s.store.Fault("reading the inputs of a build", err)
	}
	out.Incomplete = out.GetIncomplete() || read == nil || read.GetIncomplete()
	for _, in := range read.GetInputs() {
		switch {
		case !in.GetLayer():
			s.addImage(out, &containerv1.Source{Registry: in.GetRegistry(), Repository: in.GetRepository(), Reference: in.GetDigest()}, in.GetRegistry() != "")
		case !slices.Contains(out.GetLayers(), in.GetDigest()):
			out.Layers = append(out.Layers, in.GetDigest())
		}
	}
	return nil
}

// addImage adds an image by digest, with its name if everyone may know it. An image with a name
// replaces the same one without.
func (s *Service) addImage(out *buildv1.DescribeInputsResponse, image *containerv1.Source, isPublic bool) {
	isPublic = isPublic && !s.deps.Keychain.IsBuildRepository(image.GetRegistry(), image.GetRepository())
	nameless := &containerv1.Source{Reference: image.GetReference()}
	for i, known := range out.GetImages() {
		switch {
		case proto.Equal(known, image), !isPublic && known.GetReference() == image.GetReference():
			return
		case isPublic && proto.Equal(known, nameless):
			out.Images[i] = image
			return
		}
	}
	if !isPublic {
		image = nameless
	}
	out.Images = append(out.Images, image)
}

// acceptedInputs returns the valid ones of the inputs that a worker has reported; nil if there is no
// image, or the worker is of an earlier release.
func acceptedInputs(r *buildv1.Result) *buildv1.Inputs {
	if !r.GetSucceeded() || r.GetInputs() == nil {
		return nil
	}
	all := r.GetInputs().GetInputs()
	out := &buildv1.Inputs{Incomplete: r.GetInputs().GetIncomplete() || len(all) > limits.BuildInputs}
	for _, in := range all[:min(len(all), limits.BuildInputs)] {
		if digest.Digest(in.GetDigest()).Validate() != nil {
			out.Incomplete = true
			continue
		}
		if _, _, err := oci.ParseRepository(in.GetRegistry() + "/" + in.GetRepository()); err != nil {
			in = &buildv1.Input{Digest: in.GetDigest(), Layer: in.GetLayer()}
		}
		out.Inputs = append(out.Inputs, in)
	}
	if proto.Size(out) > limits.BuildInputsStored {
		return &buildv1.Inputs{Incomplete: true}
	}
	return out
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
