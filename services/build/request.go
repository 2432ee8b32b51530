package build

import (
	"context"
	"encoding/json"
	"errors"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// GetBuildRequest returns the request that a build was submitted with, for the container service,
// which checks who may know it.
func (s *Service) GetBuildRequest(ctx context.Context, req *buildv1.GetBuildRequestRequest) (*buildv1.GetBuildRequestResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	out := &buildv1.GetBuildRequestResponse{}
	out.Request, out.Unsolved, err = s.submitted(ctx, rec)
	return out, err
}

// submitted returns the request of a build with the requests of its parts, and whether the packages
// of one of them are not solved yet.
func (s *Service) submitted(ctx context.Context, rec store.Record) (out *buildv1.SubmitBuildRequest, isUnsolved bool, err error) {
	out = proto.CloneOf(rec.Request)
	if first := out.GetSubmittedRecipe(); first != nil {
		out.Recipe, out.SubmittedRecipe = first, nil
	}
	for _, id := range rec.Request.GetPartIds() {
		part, err := s.read(ctx, id)
		if err != nil {
			return nil, false, err
		}
		request, waits, err := s.submitted(ctx, part)
		if err != nil {
			return nil, false, err
		}
		out.Parts, isUnsolved = append(out.Parts, request), isUnsolved || waits
	}
	out.PartIds = nil
	out.Lock, err = s.store.Lock(ctx, rec.ID)
	if errors.Is(err, fault.NotFound) {
		return out, isUnsolved || rec.Request.GetUnsolved() != nil && rec.IsPending(), nil
	}
	if err != nil {
		err = s.store.Fault("reading a lock", err)
	}
	return out, isUnsolved, err
}

// ListLockedPackages returns the packages in the locks of builds, for an index.
func (s *Service) ListLockedPackages(ctx context.Context, req *buildv1.ListLockedPackagesRequest) (*buildv1.ListLockedPackagesResponse, error) {
	if len(req.GetBuildIds()) > limits.LockedBuilds {
		return nil, fault.Invalid.Newf("A call may name %d builds, not %d", limits.LockedBuilds, len(req.GetBuildIds()))
	}
	out := &buildv1.ListLockedPackagesResponse{}
	for _, id := range req.GetBuildIds() {
		b, err := s.lockedBuild(ctx, id)
		if err != nil {
			return nil, err
		}
		if b != nil {
			out.Builds = append(out.Builds, b)
		}
	}
	return out, nil
}

// lockedBuild returns the packages of a build, or nil if it has not ended. A build that failed has
// made no image, and so has no packages.
func (s *Service) lockedBuild(ctx context.Context, id string) (*buildv1.LockedBuild, error) {
	out := &buildv1.LockedBuild{BuildId: id}
	rec, err := s.read(ctx, id)
	switch {
	case errors.Is(err, fault.NotFound): // its record was deleted
		out.Unknown = true
		return out, nil
	case err != nil:
		return nil, err
	case rec.IsPending():
		return nil, nil //nolint:nilnil // it has not ended
	case !rec.Succeeded:
		return out, nil
	}
	request, _, err := s.submitted(ctx, rec)
	if errors.Is(err, fault.NotFound) {
		out.Unknown = true
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	if err := addPackages(out, request, map[string]bool{}); err != nil { // other builds must be listed nevertheless
		s.deps.Log.ErrorContext(ctx, "The lock of a build cannot be read", "build_id", id, "err", err)
		out.Packages, out.Unknown = nil, true
	}
	return out, nil
}

// addPackages adds the packages in the locks of a request and its parts that are not in seen.
func addPackages(out *buildv1.LockedBuild, request *buildv1.SubmitBuildRequest, seen map[string]bool) error {
	packages, err := lockedPackages(request.GetLock())
	if err != nil {
		return err
	}
	for _, p := range packages {
		if key := p.GetKind() + " " + p.GetName() + " " + p.GetVersion(); !seen[key] {
			seen[key] = true
			out.Packages = append(out.Packages, p)
		}
	}
	for _, part := range request.GetParts() {
		if err := addPackages(out, part, seen); err != nil {
			return err
		}
	}
	return nil
}

// lockedPackages returns the packages of a lock, which may be nil.
func lockedPackages(l *condav1.SolvePackagesResponse) (out []*buildv1.BuildPackage, err error) {
	for _, raw := range l.GetRecords() {
		var records []spec.Record
		if err := json.Unmarshal([]byte(raw), &records); err != nil {
			return nil, err
		}
		for _, r := range records {
			kind := "conda"
			if r.IsWheel() {
				kind = "pypi"
			}
			out = append(out, &buildv1.BuildPackage{Name: r.Name, Version: r.Version, Kind: kind})
		}
	}
	return out, nil
}
