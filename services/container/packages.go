package container

import (
	"context"
	"errors"
	"slices"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// Images of solved Conda packages are assembled from the packages, and the request's
// commands run on the result. The packages and the digest of the base image identify such
// an image; the form of the request does not. The same request resolves to the same
// packages until its lock expires (conda_lock_ttl), so that repeated pipelines get the same
// image.

// submitPackages builds an image of Conda packages unless it exists, is being built, or
// cannot be built. It tries in turn: layers of a stored lock, layers of a new lock if the
// stored one is outdated, and an installation in steps.
func (s *Service) submitPackages(ctx context.Context, r request.Resolved) (submission, error) {
	known, err := s.solve(ctx, r)
	if err != nil {
		return submission{}, err
	}
	for inLayers := known.hasLayers(); ; {
		submit := s.submitSteps
		if inLayers {
			submit = s.submitLayers
		}
		out, err := submit(ctx, r, known)
		switch old := (*outdatedError)(nil); {
		case errors.As(err, &old):
			if known, err = s.renewed(ctx, r, known, old); err != nil {
				return submission{}, err
			}
			inLayers = known.hasLayers()
		case errors.Is(err, errNoLayers):
			inLayers = false
		default:
			return out, err
		}
	}
}

// errNoLayers is returned if no worker can assemble an image from Conda packages.
var errNoLayers = errors.New("no worker assembles images from packages")

// submitLayers submits a build that assembles the image from its packages, which are locked
// or pending. It returns errNoLayers if no worker can assemble it, and an outdatedError for a
// stored lock that cannot be used any more.
func (s *Service) submitLayers(ctx context.Context, r request.Resolved, known solved) (submission, error) {
	base, err := s.baseOf(ctx, r, known)
	if err != nil {
		return submission{}, err
	}
	lock, _ := known.solution.(*request.Locked)
	b := known.build
	if b == nil {
		if b, err = s.draft(ctx, r, r.PackagePlan(known.packages, lock, base)); err != nil {
			return submission{}, err
		}
	}
	if r.Raw.GetKeep() {
		if r.KeptAs, err = keptAs(b, known.packages, lock); err != nil {
			return submission{}, err
		}
	}
	start := s.startBuild
	if known.isStored() && lock != nil {
		start = func(ctx context.Context, b *buildv1.SubmitBuildRequest) (*buildv1.SubmitBuildResponse, error) {
			return s.startStored(ctx, r, known, b)
		}
	}
	out, err := s.submitBuild(ctx, r, b, start)
	switch {
	case errors.Is(err, fault.Unsupported) && known.packages.Steps != "" && s.hasAssembler(ctx):
		return out, known.packages.WithoutSteps(err) // no worker can install them in steps either
	case errors.Is(err, fault.Unsupported):
		return out, errNoLayers
	case err == nil && !known.isStored() && !r.Raw.GetDryRun():
		err = s.storeLock(ctx, r, known, base)
	}
	if err == nil && lock == nil {
		s.solver.wake()
	}
	return out, err
}

// baseOf returns the digest of the base image of packages; request.NoBase for an environment without an image.
func (s *Service) baseOf(ctx context.Context, r request.Resolved, known solved) (digest.Digest, error) {
	if r.IsEnvironment() {
		return request.NoBase, nil
	}
	base := known.packages.Base
	switch _, issued := r.Issued[base]; {
	case issued:
		return base.Digest, nil
	case known.isStored():
		access, err := s.deps.Keychain.Access(ctx, caller.Of(r.Caller), base.Registry, base.Repository)
		if err != nil {
			return "", err
		}
		return known.base, s.checkSigned(ctx, r.Caller, request.PackagesField, base, known.base, access)
	}
	d, _, err := s.currentDigest(ctx, r.Caller, request.PackagesField, base)
	return d, err
}

// hasAssembler reports whether a worker that assembles packages is available.
func (s *Service) hasAssembler(ctx context.Context) bool {
	resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
	return err == nil && slices.ContainsFunc(resp.GetEngines(), func(e *buildv1.Engine) bool {
		return e.GetName() == "conda" && len(e.GetArchitectures()) > 0
	})
}

// submitSteps submits a build that installs the packages in steps. Packages in conflict are
// only accepted if their image exists or is being built.
func (s *Service) submitSteps(ctx context.Context, r request.Resolved, known solved) (submission, error) {
	if why := r.OnlyLayers(known.packages); why != "" {
		return submission{}, request.NotSolved(known.solution, why)
	}
	if err := s.checkSteps(ctx, known); err != nil {
		return submission{}, err
	}
	b, err := s.draft(ctx, r, r.StepsPlan(known.packages, known.solution))
	if conflict, ok := known.solution.(request.Conflict); ok && (err != nil || !s.imageExists(ctx, b)) {
		return submission{}, conflict.Err
	}
	if err != nil {
		return submission{}, err
	}
	out, err := s.submitBuild(ctx, r, b, s.startBuild)
	return out, request.Refusal(known.solution, known.packages.WithoutSteps(err))
}
