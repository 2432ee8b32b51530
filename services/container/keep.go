package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// A kept image has a name that does not expire: "c/<id>/<name>:<tag>". The id of a public one is the content ID of its
// build, so that equal packages have one name. That of an image of an organisation is random, since it gives access, like
// the token in other names. The build with its lock is stored for ever. Therefore the
// image can be made again when it was lost, also long after the record of its build was deleted.

// Who may keep images (Settings.Keep).
const (
	KeepOff   = "off"
	KeepUsers = "users"
	KeepAll   = "all"
)

// keptRetry is the time after a failed build of a kept image in which pulls do not start another one.
const keptRetry = 10 * time.Minute

// checkKeep returns an error if a caller may not keep the image of a request.
func (s *Service) checkKeep(p request.Parsed, recipe request.Recipe, who *platformv1.Identity) error {
	switch {
	case !p.Raw.GetKeep():
		return nil
	case s.deps.Keep == KeepOff || s.deps.Builds == (Builds{}):
		return fault.Unsupported.Newf("keep: this server does not keep images; its operator can set keep")
	case s.deps.Keep != KeepAll && who == nil:
		return fault.Unauthenticated.Newf("keep: this server keeps images of its users only; send an access token, or leave keep out")
	case p.Raw.GetKeepScope() == request.KeepOrganization && who.GetOrganizationId() == 0:
		return fault.Invalid.Newf("keepScope organization: name a workspace of the organisation with platformWorkspaceId, and send the access token of a participant")
	case len(recipe.Issued) > 0:
		return fault.Invalid.Newf("keep: the base image is named by an issued name; use an image with a name that does not expire")
	}
	return nil
}

// checkKeptChannels returns fault.Invalid if a channel of a lock is neither configured by the operator nor well
// known: its address may be secret, and everyone could read it. Wheels are only from the hosts that the operator
// configured.
func checkKeptChannels(lock *request.Locked) error {
	refused := func(channel string) error {
		return fault.Invalid.Newf("keep: the channel %s is neither well known nor configured on this server, so it cannot be shown with a public image; leave the channel or keep out", fault.Quote(channel))
	}
	for i, url := range lock.GetChannelUrls() {
		if !slices.Contains(lock.GetIndexedChannels(), url) && i < len(lock.GetChannels()) {
			return refused(lock.GetChannels()[i])
		}
	}
	for _, l := range lock.GetAnswer().GetLocks() {
		for _, p := range l.GetPackages() {
			if !isWheel(p) && !isIndexed(lock.SolvePackagesResponse, p.GetUrl()) {
				return refused(p.GetChannel())
			}
		}
	}
	return nil
}

// keptAs prepares the build of a kept image, and returns the image's name. lock must not be nil: requests for kept images wait
// for the solution.
func keptAs(b *buildv1.SubmitBuildRequest, of request.Packages, lock *request.Locked) (request.KeptName, error) {
	if lock == nil {
		return request.KeptName{}, request.NotSolved(request.Pending{}, "")
	}
	if err := checkKeptChannels(lock); err != nil {
		return request.KeptName{}, err
	}
	request.Kept(b)
	return request.NameOfKept(of, lock)
}

// isWheel reports whether a package is a wheel of PyPI.
func isWheel(p *condav1.LockedPackage) bool { return strings.HasSuffix(p.GetFileName(), ".whl") }

// isIndexed reports whether the address of a package is in a channel that all users may find.
func isIndexed(lock *condav1.SolvePackagesResponse, address string) bool {
	return slices.ContainsFunc(lock.GetIndexedChannels(), func(channel string) bool {
		return strings.HasPrefix(address, strings.TrimSuffix(channel, "/")+"/")
	})
}

// keeper returns the ID of the organisation for which a request keeps its image; 0 for a public image.
func keeper(r request.Resolved) int64 {
	if r.Raw.GetKeepScope() == request.KeepOrganization {
		return r.Caller.GetOrganizationId()
	}
	return 0
}

// newKeptID returns the ID for the image of a content. An organisation may have another one for it already.
func newKeptID(content string, organization int64) string {
	if organization == 0 {
		return content
	}
	return oci.KeptSecret + tokens.New()
}

// mayKeep returns an error if the caller may not keep the image of a build.
func (s *Service) mayKeep(ctx context.Context, r request.Resolved, content string) error {
	err := s.store.MayKeep(ctx, content, keeper(r), caller.Of(r.Caller).Client(ctx).String())
	if _, isFault := fault.As(err); err != nil && !isFault {
		err = s.sqlFault("reading the catalog", err)
	}
	return err
}

// keep stores the image of a build in the catalog, and puts its name into the plan: that of the first request
// for the image, since others may have named its packages differently.
func (s *Service) keep(ctx context.Context, r request.Resolved, b *buildv1.SubmitBuildRequest, plan *containerv1.Plan) error {
	stored := proto.CloneOf(b)
	anonymize(stored)
	if n := proto.Size(stored); n > limits.KeptBuild {
		return fault.Invalid.Newf("keep: the lock of the image has %d bytes, and the limit is %d", n, limits.KeptBuild)
	}
	if err := s.charge(ctx, r.Caller, storeCost(proto.Size(stored)/5)); err != nil {
		return err
	}
	specs, requested := r.Packages.Requested()
	k := store.NewKept{
		Kept: store.Kept{
			ID: plan.GetKeptId(), Content: b.GetContentId(), Organization: keeper(r), Name: plan.GetName(), Tag: plan.GetReference(), Platform: plan.GetPlatform(), Format: plan.GetFormat(),
			BuildID: plan.GetBuildId(), Created: s.deps.Now(), Specs: shortened(specs), Packages: keptPackages(locksOf(b), requested),
			BaseImage: baseImage(b),
		},
		Client: caller.Of(r.Caller).Client(ctx).String(), Build: stored,
	}
	if locks := locksOf(b); len(locks) > 0 {
		k.Channels = locks[0].GetChannels()
	}
	k.PackageCount = len(k.Packages)
	kept, err := s.store.Keep(ctx, k)
	if err != nil {
		return s.sqlFault("keeping an image", err)
	}
	plan.KeptId, plan.Name, plan.Reference = kept.ID, kept.Name, kept.Tag
	if !plan.GetBuilt() || kept.Digest != "" {
		return nil
	}
	if err := s.noteKept(ctx, plan.GetBuildId()); err != nil { // otherwise it is noted when it is described
		s.deps.Log.WarnContext(ctx, "The digest of a kept image was not stored", "build_id", plan.GetBuildId(), "err", err)
	}
	return nil
}

// baseImage returns the base image of a build by digest; "" for none.
func baseImage(b *buildv1.SubmitBuildRequest) string {
	if len(b.GetParts()) > 0 {
		return baseImage(b.GetParts()[0])
	}
	if b.GetRecipe().GetSource() == nil {
		return ""
	}
	return oci.ReferenceOf(b.GetRecipe().GetSource()).String()
}

// anonymize removes the caller of a build, and of the builds that it is made from: any caller may start it.
func anonymize(b *buildv1.SubmitBuildRequest) {
	b.Identity, b.ClientIp, b.DryRun = nil, "", false
	for _, part := range b.GetParts() {
		anonymize(part)
	}
}

// shortened returns the first specifications, limits.KeptSpecs bytes at most.
func shortened(specs []string) []string {
	size := 0
	for i, spec := range specs {
		if size += len(spec) + 1; size > limits.KeptSpecs {
			return specs[:i]
		}
	}
	return specs
}

// locksOf returns the locks of a build, or of those that it is made from.
func locksOf(b *buildv1.SubmitBuildRequest) []*condav1.SolvePackagesResponse {
	if len(b.GetParts()) == 0 {
		if b.GetLock() == nil {
			return nil
		}
		return []*condav1.SolvePackagesResponse{b.GetLock()}
	}
	var out []*condav1.SolvePackagesResponse
	for _, part := range b.GetParts() {
		out = append(out, locksOf(part)...)
	}
	return out
}

// keptPackages returns the packages of locks, each once.
func keptPackages(locks []*condav1.SolvePackagesResponse, requested map[string]bool) []store.KeptPackage {
	var out []store.KeptPackage
	seen := map[store.ImagePackage]bool{}
	for _, lock := range locks {
		for _, l := range lock.GetAnswer().GetLocks() {
			for _, p := range l.GetPackages() {
				of := store.ImagePackage{Name: p.GetName(), Version: p.GetVersion(), Kind: "conda"}
				if isWheel(p) {
					of.Kind = "pypi"
				}
				if !seen[of] {
					seen[of] = true
					out = append(out, store.KeptPackage{ImagePackage: of, License: p.GetLicense(), Requested: requested[p.GetName()]})
				}
			}
		}
	}
	return out
}

// kept returns a kept image as a request that any client could have made.
func (s *Service) kept(ctx context.Context, id string) (store.Record, error) {
	k, err := s.workingKept(ctx, id)
	if err != nil {
		return store.Record{}, err
	}
	source, isBuilt, err := s.keptSource(ctx, k)
	if err != nil {
		return store.Record{}, err
	}
	digests, err := s.store.Digests(ctx, id)
	if err != nil {
		return store.Record{}, s.sqlFault("reading the digests of a kept image", err)
	}
	until := s.expiration()
	plan := &containerv1.Plan{
		Token: id, KeptId: id, Name: k.Name, Reference: k.Tag, Platform: k.Platform, Format: k.Format, BuildId: k.BuildID, Built: isBuilt,
		Source: source, Expiration: until, Digests: digests,
	}
	return store.Record{Key: id, Created: k.Created, Expires: until.AsTime(), Plan: plan, Request: &containerv1.ContainerRequest{Keep: true}}, nil
}

// keptSource returns where a kept image is stored, and whether its newest build has succeeded. The record of that
// build may have been deleted.
func (s *Service) keptSource(ctx context.Context, k store.Kept) (*containerv1.Source, bool, error) {
	if s.deps.Build == nil {
		return nil, false, errNoBuilds()
	}
	at, err := s.deps.Build.LocateBuild(ctx, &buildv1.LocateBuildRequest{BuildId: k.BuildID})
	t := at.GetTarget()
	if errors.Is(err, fault.NotFound) {
		b, err := s.keptBuild(ctx, k.ID)
		if err != nil {
			return nil, false, err
		}
		t = b.GetTarget()
	} else if err != nil {
		return nil, false, err
	}
	return &containerv1.Source{Registry: t.GetRegistry(), Repository: t.GetRepository(), Reference: t.GetTag()}, at.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED, nil
}

// workingKept returns a kept image whose name was not deleted.
func (s *Service) workingKept(ctx context.Context, id string) (store.Kept, error) {
	k, err := s.keptImage(ctx, id)
	if err == nil && !k.Deleted.IsZero() {
		err = s.errDeleted(k)
	}
	return k, err
}

// reviveKept starts the build of a kept image, on behalf of the client behind the call, if its last build failed
// some time ago, if the record of the build was deleted, if the repository of builds has moved, or if the registry has
// lost the image.
func (s *Service) reviveKept(ctx context.Context, id string, isLost bool) error {
	k, err := s.workingKept(ctx, id)
	if err != nil {
		return err
	}
	if s.deps.Build == nil {
		return errNoBuilds()
	}
	state, err := s.deps.Build.AwaitBuild(ctx, &buildv1.AwaitBuildRequest{BuildId: k.BuildID, NoWait: true})
	switch {
	case errors.Is(err, fault.NotFound):
		isLost = true
	case err != nil:
		return err
	case state.GetState() == buildv1.BuildState_BUILD_STATE_FAILED:
		isLost = s.deps.Now().Sub(state.GetCompletedAt().AsTime()) > keptRetry
	}
	if !isLost {
		source, _, err := s.keptSource(ctx, k)
		if err != nil || s.deps.owns(source.GetRegistry(), source.GetRepository()) {
			return err
		}
	}
	b, err := s.keptBuild(ctx, id)
	if err != nil {
		return err
	}
	resp, err := s.startBuild(ctx, b)
	if err != nil {
		return err
	}
	if err := s.store.SetKeptBuild(ctx, id, resp.GetBuildId()); err != nil {
		return s.sqlFault("storing the build of a kept image", err)
	}
	s.deps.Log.InfoContext(ctx, "A kept image is built again, unless it exists", "kept_id", id, "build_id", resp.GetBuildId(), "cached", resp.GetCached())
	return nil
}

// keptImage returns an image of the catalog, also a deleted one.
func (s *Service) keptImage(ctx context.Context, id string) (store.Kept, error) {
	k, err := s.store.Kept(ctx, id)
	if err != nil && !errors.Is(err, fault.NotFound) {
		err = s.sqlFault("reading the catalog", err)
	}
	return k, err
}

// errDeleted returns the fault for an image whose name was deleted.
func (s *Service) errDeleted(k store.Kept) error {
	reason := ""
	if k.Deletion != "" {
		reason = ": " + k.Deletion
	}
	return fault.NotFound.Newf("The operator of this server deleted this name on %s%s. Its packages: %s/v1alpha1/catalog/%s/lock",
		k.Deleted.UTC().Format(time.DateOnly), reason, s.publicURL(), k.ID)
}

// keptBuild returns the build that makes a kept image in the present repository of builds, for the client behind
// the call.
func (s *Service) keptBuild(ctx context.Context, id string) (*buildv1.SubmitBuildRequest, error) {
	b, err := s.store.KeptBuild(ctx, id)
	if err != nil {
		return nil, s.sqlFault("reading how to make a kept image", err)
	}
	move(b, s.deps.Builds, clientIP(ctx))
	return b, nil
}

// move sets the client of a build, and the repository of its result: that of builds may have moved since.
func move(b *buildv1.SubmitBuildRequest, to Builds, clientIP string) {
	b.ClientIp = clientIP
	b.Target.Registry, b.Target.Repository = to.Registry, to.Repository+"/"+oci.KeptRepository
	for _, part := range b.GetParts() {
		move(part, to, clientIP)
	}
}

// noteKept stores the digest and the size of the kept images that a build has made.
func (s *Service) noteKept(ctx context.Context, build string) error {
	all, err := s.store.KeptOf(ctx, build)
	if err != nil || len(all) == 0 {
		return err
	}
	at, err := s.deps.Build.LocateBuild(ctx, &buildv1.LocateBuildRequest{BuildId: build})
	if err != nil {
		return err
	}
	t := at.GetTarget()
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.ID{}, t.GetRegistry(), t.GetRepository())
	if err != nil {
		return err
	}
	repo := upstream.Repository{Host: t.GetRegistry(), Name: t.GetRepository()}
	root, err := s.deps.Upstream.Manifest(ctx, repo, t.GetTag(), access)
	if err != nil {
		return err
	}
	size, err := s.imageSize(ctx, repo, root, access)
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.Digest == root.Digest.String() {
			continue
		}
		now := s.deps.Now()
		for _, d := range []string{k.Digest, root.Digest.String()} {
			if d == "" {
				continue
			}
			if err := s.store.AddDigest(ctx, k.ID, d, now); err != nil {
				return fmt.Errorf("recording a digest of a kept image: %w", err)
			}
			now = now.Add(time.Microsecond) // the new one is the newest
		}
		if err := s.store.SetKeptDigest(ctx, k.ID, root.Digest.String(), size, now); err != nil {
			return err
		}
	}
	return nil
}

// imageSize returns the compressed size of an image in bytes: configs and layers of all platforms.
func (s *Service) imageSize(ctx context.Context, repo upstream.Repository, doc oci.Document, access upstream.Access) (int64, error) {
	if !oci.IsIndex(doc.MediaType) {
		var m ocispec.Manifest
		if err := oci.Decode(doc.Bytes, &m); err != nil {
			return 0, err
		}
		sum := m.Config.Size
		for _, l := range m.Layers {
			sum += l.Size
		}
		return sum, nil
	}
	var index ocispec.Index
	if err := oci.Decode(doc.Bytes, &index); err != nil {
		return 0, err
	}
	sum, seen := int64(0), map[digest.Digest]bool{}
	for _, d := range index.Manifests {
		if seen[d.Digest] || !oci.IsManifest(d.MediaType) || d.Platform == nil {
			continue
		}
		seen[d.Digest] = true
		m, err := s.deps.Upstream.Manifest(ctx, repo, d.Digest.String(), access)
		if err != nil {
			return 0, err
		}
		n, err := s.imageSize(ctx, repo, m, access)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// sweepKept notes the kept images whose builds have ended without this service noticing, and deletes those that
// were never built.
func (s *Service) sweepKept(ctx context.Context, now time.Time) error {
	if s.deps.Build == nil {
		return nil
	}
	all, err := s.store.Unbuilt(ctx, now.Add(-keptRetry))
	for _, k := range all {
		state, stateErr := s.deps.Build.AwaitBuild(ctx, &buildv1.AwaitBuildRequest{BuildId: k.BuildID, NoWait: true})
		isGone := errors.Is(stateErr, fault.NotFound) || state.GetState() == buildv1.BuildState_BUILD_STATE_FAILED
		switch {
		case isGone:
			err = errors.Join(err, s.store.DeleteUnbuilt(ctx, k.ID, now.Add(-limits.KeptUnbuilt)))
		case stateErr != nil:
			return errors.Join(err, stateErr)
		case state.GetState() == buildv1.BuildState_BUILD_STATE_SUCCEEDED:
			err = errors.Join(err, s.noteKept(ctx, k.BuildID))
		}
	}
	return errors.Join(err, s.store.DeleteKeptPulls(ctx, now.Add(-limits.CatalogPullDays*day).UTC().Format(time.DateOnly)))
}
