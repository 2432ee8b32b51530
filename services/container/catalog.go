package container

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/container/citation"
	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
)

// maxSearch is the maximum length of the texts of a search in bytes, as in catalog.proto.
const maxSearch = 200

// reader identifies the caller of a read call of the catalog, which needs no login unless the server requires
// one for everything, or the call names a workspace. The call counts as a search.
func (s *Service) reader(ctx context.Context, workspace int64) (*platformv1.Identity, error) {
	if workspace < 0 {
		return nil, fault.Invalid.Newf("workspaceId must not be negative")
	}
	who, err := caller.Gate{Platform: s.deps.Platform, Anonymous: s.deps.AnonymousAccess && workspace == 0}.Identify(ctx, caller.Claim{WorkspaceID: workspace})
	if err != nil {
		return nil, err
	}
	return who, s.chargeKind(ctx, ratelimit.Searches, who, 1)
}

// ListCatalog returns a page of kept images.
func (s *Service) ListCatalog(ctx context.Context, req *containerv1.ListCatalogRequest) (*containerv1.ListCatalogResponse, error) {
	who, err := s.reader(ctx, req.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	q, err := catalogQuery(req)
	if err != nil {
		return nil, err
	}
	if req.GetWorkspaceId() != 0 {
		if q.Organization = who.GetOrganizationId(); q.Organization == 0 {
			return nil, fault.Invalid.Newf("workspaceId: the workspace belongs to no organisation of this platform")
		}
		if len(who.GetRepositories()) > 0 { // the names give access to the images
			return nil, fault.Denied.Newf("An access token of some repositories cannot list the images of an organisation").WithCode(fault.TokenScope)
		}
	}
	q.Most++
	list, err := s.store.Catalog(ctx, q)
	if err != nil {
		return nil, s.sqlFault("listing the catalog", err)
	}
	out := &containerv1.ListCatalogResponse{}
	if len(list) == q.Most {
		list = list[:q.Most-1]
		out.NextPageToken = proto.String(list[len(list)-1].ID)
	}
	for _, k := range list {
		out.Images = append(out.Images, s.catalogImage(k))
	}
	return out, nil
}

// catalogQuery validates a search.
func catalogQuery(req *containerv1.ListCatalogRequest) (store.CatalogQuery, error) {
	for _, f := range []struct{ name, value string }{{"q", req.GetQ()}, {"package", req.GetPackage()}, {"version", req.GetVersion()}, {"license", req.GetLicense()}} {
		if len(f.value) > maxSearch {
			return store.CatalogQuery{}, fault.Invalid.Newf("%s has %d bytes, and the maximum is %d", f.name, len(f.value), maxSearch)
		}
	}
	q := store.CatalogQuery{
		Words: strings.Fields(strings.ToLower(req.GetQ())), Package: strings.ToLower(req.GetPackage()), Version: req.GetVersion(), License: req.GetLicense(),
		Sort: cmp.Or(req.GetSort(), "newest"), After: req.GetPageToken(), Most: cmp.Or(int(req.GetMax()), usuallyListed),
	}
	switch {
	case len(q.Words) > limits.CatalogWords:
		return q, fault.Invalid.Newf("q has %d words, and the maximum is %d", len(q.Words), limits.CatalogWords)
	case q.Version != "" && q.Package == "":
		return q, fault.Invalid.Newf("version needs package: the name of the package with this version")
	case !slices.Contains([]string{"newest", "pulls", "name"}, q.Sort):
		return q, fault.Invalid.Newf("sort must be newest, pulls or name, not %q", fault.Quote(q.Sort))
	case q.Most < 1 || q.Most > mostListed:
		return q, fault.Invalid.Newf("max must be 1 to %d", mostListed)
	case q.After != "" && !oci.IsKeptID(q.After):
		return q, fault.Invalid.Newf("pageToken is invalid: send the nextPageToken of a page of this list")
	}
	return q, nil
}

// catalogImage returns the description of a kept image, with its packages as far as they were read.
func (s *Service) catalogImage(k store.Kept) *containerv1.CatalogImage {
	out := &containerv1.CatalogImage{
		Id: proto.String(k.ID), Name: proto.String(k.Name), Tag: proto.String(k.Tag), TargetImage: proto.String(s.keptName(k)),
		ContainerPlatform: rpc.Optional(k.Platform), Format: rpc.Optional(k.Format), CreationTime: timestamppb.New(k.Created), BuildId: rpc.Optional(k.BuildID),
		Digest: rpc.Optional(k.Digest), Pulls: proto.Float64(float64(k.Pulls)), LastPull: rpc.Optional(k.LastPull), PackageCount: proto.Int32(int32(k.PackageCount)),
		DeletionTime: timestamp(k.Deleted), DeletionReason: rpc.Optional(k.Deletion),
	}
	if k.Organization != 0 {
		out.OrganizationId = proto.Float64(float64(k.Organization))
	}
	if k.Size > 0 {
		out.Size = proto.Float64(float64(k.Size))
	}
	for _, p := range k.Packages {
		out.Packages = append(out.Packages, &containerv1.CatalogPackage{
			Name: proto.String(p.Name), Version: proto.String(p.Version), License: rpc.Optional(p.License), Kind: proto.String(p.Kind), Requested: proto.Bool(p.Requested),
		})
	}
	return out
}

// keptName returns the name to pull.
func (s *Service) keptName(k store.Kept) string {
	return s.targetImage(&containerv1.Plan{KeptId: k.ID, Name: k.Name, Reference: k.Tag, Format: k.Format})
}

// GetCatalogImage returns a kept image, also a deleted one.
func (s *Service) GetCatalogImage(ctx context.Context, req *containerv1.GetCatalogImageRequest) (*containerv1.GetCatalogImageResponse, error) {
	if _, err := s.reader(ctx, 0); err != nil {
		return nil, err
	}
	k, err := s.keptImage(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	if k.Digest == "" && s.deps.Build != nil { // the event of the end of its build may be late
		if err := s.noteKept(ctx, k.BuildID); err == nil {
			if k, err = s.keptImage(ctx, k.ID); err != nil {
				return nil, err
			}
		}
	}
	if k.Packages, err = s.store.KeptPackages(ctx, k.ID); err != nil {
		return nil, s.sqlFault("reading the packages of a kept image", err)
	}
	out := s.catalogImage(k)
	out.Specs, out.Channels, out.BaseImage = k.Specs, k.Channels, rpc.Optional(k.BaseImage)
	digests, err := s.store.Digests(ctx, k.ID)
	if err != nil {
		return nil, s.sqlFault("reading the digests of a kept image", err)
	}
	for _, d := range digests {
		if d != k.Digest {
			out.EarlierDigests = append(out.EarlierDigests, d)
		}
	}
	since := s.deps.Now().Add(-limits.CatalogPullDays * day).UTC().Format(time.DateOnly)
	history, err := s.store.KeptPulls(ctx, k.ID, since)
	if err != nil {
		return nil, s.sqlFault("reading the pulls of a kept image", err)
	}
	for _, d := range history {
		out.PullHistory = append(out.PullHistory, &containerv1.CatalogPulls{Date: proto.String(d.Day), Pulls: proto.Float64(float64(d.Pulls))})
	}
	return &containerv1.GetCatalogImageResponse{Image: out}, nil
}

// withBuild calls f with a kept image and the build that makes it, for a client that may read the catalog. Clients
// take turns, since the build is large.
func (s *Service) withBuild(ctx context.Context, id string, f func(store.Kept, *buildv1.SubmitBuildRequest) error) error {
	who, err := s.reader(ctx, 0)
	if err != nil {
		return err
	}
	k, err := s.keptImage(ctx, id)
	if err != nil {
		return err
	}
	return s.deps.Turns.Do(ctx, caller.Of(who).Client(ctx), limits.KeptBuild, func() error {
		b, err := s.store.KeptBuild(ctx, id)
		if err != nil {
			return s.sqlFault("reading how to make a kept image", err)
		}
		return f(k, b)
	})
}

// GetCatalogLock returns the packages of a kept image as a lock file.
func (s *Service) GetCatalogLock(ctx context.Context, req *containerv1.GetCatalogLockRequest) (*containerv1.GetCatalogLockResponse, error) {
	out := &containerv1.GetCatalogLockResponse{}
	return out, s.withBuild(ctx, req.GetId(), func(_ store.Kept, b *buildv1.SubmitBuildRequest) (err error) {
		out.Text, err = keptLock(b, lockfile.Format(req.GetFormat()))
		return err
	})
}

// keptLock returns the lock of a build in a format. It returns fault.Invalid for a format that cannot hold it.
func keptLock(b *buildv1.SubmitBuildRequest, format lockfile.Format) (string, error) {
	locks := locksOf(b)
	if len(locks) == 0 {
		return "", fault.NotFound.Newf("The image has no lock")
	}
	file, err := lockfile.Solved(locks)
	if err != nil {
		return "", fmt.Errorf("reading the lock of a kept image: %w", err)
	}
	return file.Text(format)
}

// condaLock is the format of the lock in a citation: it has all platforms.
const condaLock = "conda-lock"

// GetCitation returns how to cite a kept image.
func (s *Service) GetCitation(ctx context.Context, req *containerv1.GetCitationRequest) (*containerv1.GetCitationResponse, error) {
	out := &containerv1.GetCitationResponse{}
	return out, s.withBuild(ctx, req.GetId(), func(k store.Kept, b *buildv1.SubmitBuildRequest) error {
		image, err := s.cited(ctx, k, b)
		if err != nil {
			return err
		}
		out.Text, err = image.Text(req.GetFormat())
		return err
	})
}

// cited returns what the citation of a kept image describes.
func (s *Service) cited(ctx context.Context, k store.Kept, b *buildv1.SubmitBuildRequest) (citation.Image, error) {
	lock, err := keptLock(b, condaLock)
	if err != nil {
		return citation.Image{}, err
	}
	sum := sha256.Sum256([]byte(lock))
	image := citation.Image{
		ID: k.ID, URL: s.publicURL() + "/c/" + k.ID, Host: s.deps.Host, Repository: oci.IssuedName{Token: k.ID, Name: k.Name}.String(), Tag: k.Tag,
		IsSIF: k.Format == request.FormatSif, IsEnvironment: k.Format == request.FormatEnvironment, Digest: k.Digest, Platforms: k.Platform, Kept: k.Created,
		Lock: citation.File{URL: s.publicURL() + "/v1alpha1/catalog/" + k.ID + "/lock?format=" + condaLock, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(lock))},
	}
	packages, err := s.store.KeptPackages(ctx, k.ID)
	if err != nil {
		return image, s.sqlFault("reading the packages of a kept image", err)
	}
	requested := map[string]bool{}
	for _, p := range packages {
		requested[p.Name] = p.Requested
	}
	for _, of := range locksOf(b) {
		for _, l := range of.GetAnswer().GetLocks() {
			for _, p := range l.GetPackages() {
				image.Packages = append(image.Packages, citation.Package{
					Name: p.GetName(), Version: p.GetVersion(), License: p.GetLicense(), URL: withoutLogin(p.GetUrl()), SHA256: p.GetSha256(), Requested: requested[p.GetName()],
				})
			}
		}
	}
	return image, nil
}

// DeleteCatalogImage deletes the name of a kept image for operators.
func (s *Service) DeleteCatalogImage(ctx context.Context, req *containerv1.DeleteCatalogImageRequest) (*containerv1.DeleteCatalogImageResponse, error) {
	if _, err := s.operators.Check(ctx, rpc.CallFrom(ctx).Client(), rpc.CallFrom(ctx).Authorization); err != nil {
		return nil, err
	}
	if n := len(req.GetReason()); n > maxReason {
		return nil, fault.Invalid.Newf("reason has %d bytes, and the maximum is %d", n, maxReason)
	}
	err := s.store.DeleteKept(ctx, req.GetId(), strings.Join(strings.Fields(req.GetReason()), " "), s.deps.Now())
	if err != nil {
		if _, isFault := fault.As(err); isFault {
			return nil, err
		}
		return nil, s.sqlFault("deleting a name", err)
	}
	// The id of an image of an organisation is published as it is: it gives no access any more.
	if err := s.deps.Bus.Publish(Revoked, []byte(req.GetId())); err != nil { // otherwise they notice it within a minute
		s.deps.Log.WarnContext(ctx, "The deletion of a name was not published", "kept_id", req.GetId(), "err", err)
	}
	return &containerv1.DeleteCatalogImageResponse{}, nil
}

// maxReason is the maximum length of the reason of a deletion in bytes, as in catalog.proto.
const maxReason = 500

// CountCatalogPulls adds the pulls that a registry counted.
func (s *Service) CountCatalogPulls(ctx context.Context, req *containerv1.CountCatalogPullsRequest) (*containerv1.CountCatalogPullsResponse, error) {
	if n := len(req.GetPulls()); n > limits.CatalogPulled {
		return nil, fault.Invalid.Newf("There are %d images, and the maximum is %d", n, limits.CatalogPulled)
	}
	err := s.store.AddKeptPulls(ctx, req.GetPulls(), s.deps.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return nil, s.sqlFault("counting pulls", err)
	}
	return &containerv1.CountCatalogPullsResponse{}, nil
}
