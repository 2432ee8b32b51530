package buildkit

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A readImage is an image that a build has read: a base image, an image from which files are copied, or
// one that the ONBUILD instructions of another image name.
type readImage struct {
	repo   upstream.Repository
	digest digest.Digest
	// isIssued is set for an image of the service that the request named by an issued name.
	isIssued bool
}

// noteImage records that the build reads an image with a digest. The build's own source is part of the
// recipe and is not recorded.
func (s *sources) noteImage(name, imageDigest string) {
	ref, err := oci.ParseReference(name)
	d := digest.Digest(imageDigest)
	if err != nil || d.Validate() != nil || s.isOwnSource(ref) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.read) <= limits.BuildInputs { // one more than are reported
		s.read[readImage{upstream.Repository{Host: oci.CanonicalHost(ref.Registry), Name: ref.Repository}, d, s.isAllowed(ref)}] = true
	}
}

// inputs returns the images that the build has read. They are sorted, so that equal builds return equal
// lists.
func (s *sources) inputs(ctx context.Context, d remote.Deps) *buildv1.Inputs {
	s.mu.Lock()
	images := slices.SortedFunc(maps.Keys(s.read), func(a, b readImage) int {
		return cmp.Or(cmp.Compare(a.repo.Host, b.repo.Host), cmp.Compare(a.repo.Name, b.repo.Name), cmp.Compare(a.digest, b.digest))
	})
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, limits.BuildInputsWait)
	defer cancel()
	out := &buildv1.Inputs{}
	for _, i := range images {
		in := &buildv1.Input{Digest: i.digest.String()}
		if login, ok := s.of(i.repo); ok && !i.isIssued {
			in = d.Input(ctx, i.repo, i.digest, login)
		}
		jobs.AddInput(out, in)
	}
	return out
}
