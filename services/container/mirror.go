package container

import (
	"context"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
)

// submitMirror submits a copy of an image, with all platforms and referrers, to a repository of
// its caller.
func (s *Service) submitMirror(ctx context.Context, r request.Resolved) (submission, error) {
	switch {
	case r.Caller == nil:
		return submission{}, fault.Invalid.Newf("mirror needs an access token: the image is pushed with the credentials of its user")
	case s.deps.tokenIn(r.Image) != "":
		return submission{}, fault.Invalid.Newf("containerImage: %s is a name of this service; mirror copies images of other registries. Use freeze for this image", r.Image)
	}
	to, err := r.MirrorTarget()
	if err != nil {
		return submission{}, err
	}
	if s.deps.owns(to.GetRegistry(), to.GetRepository()) {
		return submission{}, fault.Invalid.Newf("buildRepository: the copy would belong to this service; name a repository of your own")
	}
	d, _, err := s.currentDigest(ctx, r.Caller, "containerImage", r.Image)
	if err != nil {
		return submission{}, err
	}
	return s.submitBuild(ctx, r, r.BuildMirror(d, to, clientIP(ctx)), s.startBuild)
}
