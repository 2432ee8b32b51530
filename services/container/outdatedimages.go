package container

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
)

// ListOutdatedImages returns kept images that have a package in a version below another one.
func (s *Service) ListOutdatedImages(ctx context.Context, req *containerv1.ListOutdatedImagesRequest) (*containerv1.ListOutdatedImagesResponse, error) {
	owner, err := s.ownerToList(ctx, req)
	if err != nil {
		return nil, err
	}
	q, err := imageQuery(req)
	if err != nil {
		return nil, err
	}
	indexing, cancel := context.WithTimeout(ctx, limits.IndexWait)
	defer cancel()
	if err := s.indexPackages(indexing, 1); err != nil {
		s.deps.Log.WarnContext(ctx, "The packages of new images were not indexed", "err", err) // the response has their number
	}
	q.Owner, q.Now = owner, s.deps.Now()
	if q.Versions, err = s.versionsBelow(ctx, owner, req); err != nil {
		return nil, err
	}
	list, err := s.store.WithPackage(ctx, q)
	if err != nil {
		return nil, s.sqlFault("looking for images with a package", err)
	}
	out := &containerv1.ListOutdatedImagesResponse{}
	if most := q.Most - 1; len(list) > most {
		list = list[:most]
		out.NextPageToken = proto.String(store.PositionOf(list[most-1].Record).String())
	}
	for _, r := range list {
		out.Images = append(out.Images, s.outdatedImage(r, owner == nil))
	}
	n, err := s.store.CountUnindexed(ctx, owner, q.Now)
	if err != nil {
		return nil, s.sqlFault("counting images", err)
	}
	if n > 0 {
		out.Unindexed = proto.Int32(int32(n))
	}
	return out, nil
}

// ownerToList returns the user whose images are listed, or nil for an administrator who lists all.
func (s *Service) ownerToList(ctx context.Context, req *containerv1.ListOutdatedImagesRequest) (*platformv1.Identity, error) {
	if !req.GetAll() {
		return s.signedIn(ctx)
	}
	gate := caller.Gate{Platform: s.deps.Platform, Scopes: []rpc.Scope{rpc.ScopeAdmin}}
	return nil, gate.Administrator(ctx, "Only the platform's administrators can list the images of all users")
}

// imageQuery validates a request. It returns a query for one more image than are listed.
func imageQuery(req *containerv1.ListOutdatedImagesRequest) (q store.ImageQuery, err error) {
	switch {
	case req.GetPackage() == "" || req.GetBelow() == "":
		return q, fault.Invalid.Newf("package and below are required, e.g. package=openssl&below=3.0.14")
	case len(req.GetPackage()) > limits.PackageField || len(req.GetBelow()) > limits.PackageField:
		return q, fault.Invalid.Newf("package and below have at most %d characters", limits.PackageField)
	case req.GetMax() < 0 || req.GetMax() > limits.OutdatedMost:
		return q, fault.Invalid.Newf("max must be 1 to %d", limits.OutdatedMost)
	case req.GetWorkspaceId() < 0:
		return q, fault.Invalid.Newf("workspaceId must not be negative")
	}
	if _, err := conda.Below(nil, req.GetBelow()); err != nil {
		return q, fault.In("below", err)
	}
	q.Name, q.Workspace = strings.ToLower(req.GetPackage()), req.GetWorkspaceId() // names of packages are in lower case
	q.Most = cmp.Or(int(req.GetMax()), limits.OutdatedUsually) + 1
	q.From, err = store.ParsePosition(req.GetPageToken())
	return q, err
}

// versionsBelow returns the versions in the index of a package that are outdated.
func (s *Service) versionsBelow(ctx context.Context, owner *platformv1.Identity, req *containerv1.ListOutdatedImagesRequest) ([]string, error) {
	all, err := s.store.Versions(ctx, owner, strings.ToLower(req.GetPackage()))
	if err != nil {
		return nil, s.sqlFault("reading the versions of a package", err)
	}
	if len(all) > limits.OutdatedVersions {
		return nil, fault.Invalid.Newf("The images have more than %d versions of %s, which cannot be listed", limits.OutdatedVersions, fault.Quote(req.GetPackage()))
	}
	below, err := conda.Below(all, req.GetBelow())
	return below, fault.In("below", err)
}

// outdatedImage describes an image in a list. The user is only included in lists of all images.
func (s *Service) outdatedImage(r store.PackagedRecord, withUser bool) *containerv1.OutdatedImage {
	of := s.listed(r.Record)
	out := &containerv1.OutdatedImage{
		RequestId: proto.String(tokens.IDOf(r.Key)), ContainerImage: of.ContainerImage, ContainerPlatform: of.ContainerPlatform, BuildId: of.BuildId,
		WorkspaceId: of.WorkspaceId, ReplacedBy: rpc.Optional(r.ReplacedBy), Freeze: of.Freeze, CreationTime: timestamppb.New(r.Created), Expiration: of.Expiration,
	}
	if id := r.Plan.GetIdentity(); id != nil && withUser {
		out.UserId = proto.Float64(float64(id.GetUserId()))
	}
	for _, p := range r.Packages {
		out.Packages = append(out.Packages, &containerv1.OutdatedPackage{Name: proto.String(p.Name), Version: proto.String(p.Version), Kind: proto.String(p.Kind)})
	}
	return out
}
