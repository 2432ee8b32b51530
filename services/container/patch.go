package container

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/container/request"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// A patch solves the lock of an earlier image again with all other packages held, and requests the
// image of the new lock like any other: as its caller, with the caller's credentials, and after all
// checks of a new request. The layers of packages that did not change exist already.

// A patch is a validated patch with its earlier image.
type patch struct {
	*containerv1.ImagePatch
	// names are the packages to exchange.
	names []string
	rec   store.Record
	from  request.Earlier
	locks conda.Locks
}

// PatchImage requests an image that differs from an earlier one only in some Conda packages.
func (s *Service) PatchImage(ctx context.Context, req *containerv1.PatchImageRequest) (*containerv1.PatchImageResponse, error) {
	in := req.GetPatch()
	names, err := checkPatch(in)
	if err != nil {
		return nil, err
	}
	p := patch{ImagePatch: in, names: names}
	if err := s.readEarlier(ctx, &p); err != nil {
		return nil, err
	}
	now, err := s.solvePatch(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &containerv1.PatchImageResponse{PatchedFrom: proto.String(p.rec.Key)}
	for _, l := range now.GetAnswer().GetLocks() {
		out.Changes = append(out.Changes, &containerv1.PlatformChanges{Platform: l.Platform, Packages: l.GetChanges()})
	}
	if err := p.checkChanges(out); err != nil {
		return nil, err
	}
	if err := p.checkPlatforms(now); err != nil {
		return nil, err
	}
	made, err := s.submitPatched(ctx, p, now)
	if err != nil {
		return nil, err
	}
	if in.GetDryRun() {
		return out, nil
	}
	r := s.response(made)
	out.RequestId, out.ContainerToken, out.TargetImage, out.Expiration = r.RequestId, r.ContainerToken, r.TargetImage, r.Expiration
	out.ContainerImage, out.BuildId, out.Cached, out.Freeze, out.Succeeded = r.ContainerImage, r.BuildId, r.Cached, r.Freeze, r.Succeeded
	if err := s.store.SetReplaced(ctx, p.rec.Key, out.GetRequestId()); err != nil {
		s.deps.Log.WarnContext(ctx, "The earlier image is not marked as patched", "request_id", p.rec.Key, "err", err)
	}
	s.announcePatch(ctx, out, made)
	return out, nil
}

// checkPatch validates a patch, and returns the names of the packages to exchange.
func checkPatch(in *containerv1.ImagePatch) (names []string, err error) {
	switch {
	case in.GetImage() == "":
		return nil, fault.Invalid.Newf("image is missing: set it to the name of an image that this server issued, or to the id of its request")
	case len(in.GetPackages()) == 0:
		return nil, fault.Invalid.Newf("packages is missing: list the packages to exchange, e.g. openssl=3.0.14")
	case len(in.GetPackages()) > limits.PatchPackages:
		return nil, fault.Invalid.Newf("packages has %d packages, and may have %d", len(in.GetPackages()), limits.PatchPackages)
	case len(in.GetAlso()) > limits.PatchAlso:
		return nil, fault.Invalid.Newf("also has %d packages, and may have %d", len(in.GetAlso()), limits.PatchAlso)
	}
	for _, name := range in.GetAlso() {
		if len(name) > limits.PackageField {
			return nil, fault.Invalid.Newf("also has a name of %d characters, and a name may have %d", len(name), limits.PackageField)
		}
	}
	names, err = conda.PatchedNames(in.GetPackages())
	return names, fault.In("packages", err)
}

// readEarlier reads the image to patch, if the caller has the right to a new name for it.
func (s *Service) readEarlier(ctx context.Context, p *patch) error {
	if s.deps.Conda == nil || s.deps.Build == nil {
		return fault.Unsupported.Newf("This server cannot solve or assemble Conda packages: `slipway info` shows what it can do")
	}
	id, err := s.patchedID(p.GetImage())
	if err != nil {
		return err
	}
	rec, b, err := s.earlierImage(ctx, id)
	if err != nil {
		return err
	}
	p.rec = rec
	if p.from, err = request.NewEarlier(rec.Request, rec.Plan, b.GetRequest()); err != nil {
		return err
	}
	if p.locks = p.from.Locks(); p.locks == nil || b.GetUnsolved() {
		return fault.Conflict.Newf("The packages of the image are not solved yet: try again when `slipway status` shows that it is done").WithCode(fault.BuildRunning)
	}
	if err := s.rereadIncluded(ctx, "image", p.from.Added.GetLayers(), rec.Plan.GetIdentity()); err != nil {
		return err
	}
	if text, err := p.locks.Text(); err != nil || len(text) > limits.EnvironmentFile {
		return cmp.Or(err, error(fault.Invalid.Newf("The lock of the image is too large to be patched: it has %d bytes, and the limit is %d. Request the image again", len(text), limits.EnvironmentFile).WithCode(fault.PatchRebuild)))
	}
	name, platform, err := p.locks.Missing(p.names)
	if name != "" {
		return fault.Invalid.Newf("packages: the image does not have the Conda package %s (%s): a patch exchanges packages, and adds none", fault.Quote(name), platform)
	}
	return err
}

// earlierImage returns an earlier request and the request of its build. A kept image is patched for the client behind the
// call.
func (s *Service) earlierImage(ctx context.Context, id string) (store.Record, *buildv1.GetBuildRequestResponse, error) {
	if oci.IsKeptID(id) {
		return s.earlierKept(ctx, id)
	}
	rec, err := s.requestedBefore(ctx, id)
	if err != nil {
		return rec, nil, err
	}
	if !hasPermanentName(rec.Plan) {
		if err := rec.Works(s.deps.Now()); err != nil {
			return rec, nil, err
		}
	}
	if rec.Plan.GetBuildId() == "" {
		return rec, nil, fault.Invalid.Newf("The image exists in its registry, and was not made of Conda packages by this server: its packages cannot be exchanged").WithCode(fault.PatchRebuild)
	}
	b, err := s.deps.Build.GetBuildRequest(ctx, &buildv1.GetBuildRequestRequest{BuildId: rec.Plan.GetBuildId()})
	if errors.Is(err, fault.NotFound) {
		err = fault.NotFound.New("The record of the image's build was deleted: request the image again", err)
	}
	return rec, b, err
}

// earlierKept returns a kept image as a request of the client behind the call, and the build that makes it. Any client can name
// the image, and its build is large: clients take turns.
func (s *Service) earlierKept(ctx context.Context, id string) (store.Record, *buildv1.GetBuildRequestResponse, error) {
	who, err := s.identifyAs(ctx, nil)
	if err != nil {
		return store.Record{}, nil, err
	}
	if oci.IsSecretKeptID(id) {
		return store.Record{}, nil, fault.Invalid.Newf("image: an image that was kept for an organisation is patched by the id of its request, which `slipway containers` lists")
	}
	rec, err := s.kept(ctx, id)
	if err != nil {
		return rec, nil, err
	}
	rec.Plan.Identity, rec.Request.Format = who, rec.Plan.GetFormat()
	out := &buildv1.GetBuildRequestResponse{}
	return rec, out, s.deps.Turns.Do(ctx, caller.Of(who).Client(ctx), limits.KeptBuild, func() (err error) {
		out.Request, err = s.keptBuild(ctx, id)
		return err
	})
}

// patchedID returns the ID or the token of the request for an image.
func (s *Service) patchedID(image string) (string, error) {
	if !strings.ContainsAny(image, "/:") {
		return image, nil
	}
	ref, err := oci.ParseReference(strings.TrimPrefix(image, "oras://"))
	if err != nil {
		return "", fault.In("image", err)
	}
	if token := s.deps.tokenIn(ref); token != "" {
		return token, nil
	}
	return "", fault.Invalid.Newf("image: %s is not an image name that this server issued; for a frozen image, send the id of its request, which `slipway containers` lists", fault.Quote(image))
}

// solvePatch returns the new lock of all platforms of an image.
func (s *Service) solvePatch(ctx context.Context, p patch) (*condav1.SolvePackagesResponse, error) {
	text, err := p.locks.Text()
	if err != nil {
		return nil, err
	}
	who := p.rec.Plan.GetIdentity()
	place, err := s.solver.awaited.TryAcquire(fairshare.Request{Client: caller.Of(who).Client(ctx)})
	if err != nil {
		return nil, err
	}
	defer place.Release()
	ctx, cancel := context.WithTimeout(ctx, limits.CondaTimeout+time.Second)
	defer cancel()
	platforms := strings.Split(p.from.Platform, ",")
	solve := func(brief bool, platforms ...string) (*condav1.SolvePackagesResponse, error) {
		return s.deps.Conda.SolvePackages(ctx, &condav1.SolvePackagesRequest{
			Identity: who, Hold: true, MayChange: p.GetAlso(), Brief: brief,
			Lock: &condav1.LockQuery{
				Packages:  &condav1.CondaPackages{Type: "CONDA", Entries: p.GetPackages()},
				Platforms: platforms, From: &condav1.LockFile{Lock: base64.StdEncoding.EncodeToString([]byte(text))},
			},
		})
	}
	out, err := solve(false, platforms...)
	if err != nil {
		return nil, err
	}
	if out.GetAnswer().GetConflict() == nil {
		return out, p.locks.Retain(out)
	}
	where := ""
	for _, platform := range platforms { // the response does not have the platform
		if len(platforms) == 1 {
			break
		}
		if of, err := solve(true, platform); err == nil && of.GetAnswer().GetConflict() != nil {
			where = platform + ": "
			break
		}
	}
	a := out.GetAnswer()
	return nil, fault.Invalid.Newf("%s%s", where, a.GetMessage()).WithCode(fault.CondaConflict).
		WithDetail(&condav1.LockPackagesResponse{Conflict: a.GetConflict(), Suggestions: a.GetSuggestions()})
}

// checkChanges returns an error if nothing changes, or if other packages change than those that may.
func (p patch) checkChanges(out *containerv1.PatchImageResponse) error {
	isPatched, moves := false, []string{}
	for _, platform := range out.GetChanges() {
		for _, c := range platform.GetPackages() {
			switch name := c.GetName(); {
			case slices.Contains(p.names, name) && c.GetKind() != "pypi" && c.GetChange() == "changed":
				isPatched = true
			case !p.GetAllowChanges() && !slices.Contains(p.GetAlso(), name):
				if text := changeText(c); !slices.Contains(moves, text) {
					moves = append(moves, text)
				}
			}
		}
	}
	switch {
	case !isPatched:
		return fault.Conflict.Newf("Nothing would change: the image has %s as requested, or in the newest version with which all other packages can remain. Set a newer version to see which packages prevent it, e.g. openssl=3.0.14",
			strings.Join(p.names, ", ")).WithCode(fault.PatchUnchanged)
	case len(moves) > 0:
		return fault.Conflict.Newf("Other packages must change: %s. Name them in also (slipway patch --also), or set allowChanges (--allow-changes)", strings.Join(moves, ", ")).
			WithCode(fault.PatchMoves).WithDetail(&containerv1.PatchImageResponse{PatchedFrom: out.PatchedFrom, Changes: out.GetChanges()})
	}
	return nil
}

// checkPlatforms returns an error if the platforms of an image would have different versions of a
// package that is exchanged.
func (p patch) checkPlatforms(now *condav1.SolvePackagesResponse) error {
	for _, name := range p.names {
		version, platform := "", ""
		for _, l := range now.GetAnswer().GetLocks() {
			at := slices.IndexFunc(l.GetPackages(), func(one *condav1.LockedPackage) bool { return one.GetName() == name && one.GetSubdir() != "pypi" })
			if at < 0 {
				continue // checkChanges reports that it is removed
			}
			if v := l.GetPackages()[at].GetVersion(); version != "" && v != version {
				return fault.Conflict.Newf("%s would become %s for %s, but %s for %s: set a version that both have, e.g. %s=%s", name, version, platform, v, l.GetPlatform(), name, v).WithCode(fault.PatchMoves)
			}
			version, platform = l.GetPackages()[at].GetVersion(), l.GetPlatform()
		}
	}
	return nil
}

// changeText describes a change, e.g. "openssl 3.0.13 → 3.0.14".
func changeText(c *condav1.PackageChange) string {
	old, now := c.GetOld(), c.GetNew()
	switch {
	case old == nil:
		return c.GetName() + " " + now.GetVersion() + " is added"
	case now == nil:
		return c.GetName() + " " + old.GetVersion() + " is removed"
	case old.GetVersion() == now.GetVersion():
		return c.GetName() + " " + old.GetVersion() + " " + old.GetBuild() + " → " + now.GetBuild()
	}
	return c.GetName() + " " + old.GetVersion() + " → " + now.GetVersion()
}

// submitPatched requests the image of a new lock, as the caller of the patch.
func (s *Service) submitPatched(ctx context.Context, p patch, now *condav1.SolvePackagesResponse) (submission, error) {
	text, err := patchedText(now)
	if err != nil {
		return submission{}, err
	}
	raw := p.from.Request(text)
	if who := p.rec.Plan.GetIdentity(); who != nil {
		actAs(raw, who)
	}
	parsed, err := request.Parse(raw, s.deps.owns)
	if err != nil {
		return submission{}, err
	}
	r, err := s.resolve(ctx, parsed, false)
	if err != nil {
		return submission{}, err
	}
	if r.Caller != nil {
		r.Caller.Repositories = p.rec.Plan.GetIdentity().GetRepositories() // the image stays restricted to them
	}
	if err := p.from.Apply(parsed, r.Packages); err != nil {
		return submission{}, err
	}
	r = r.Retain(p.from.Added)
	err = s.extendLayers(ctx, &containerv1.Plan{Config: p.from.Added, Expiration: s.expiration()})
	if e, ok := fault.As(err); ok && errors.Is(err, fault.NotFound) {
		err = e.To(fault.Invalid).WithCode(fault.PatchRebuild)
	}
	if err != nil {
		return submission{}, err
	}
	if err := s.checkPackages(ctx, r.Caller, false, now); err != nil {
		return submission{}, err
	}
	solution := request.SolutionOf(now, r.Platforms, r.Packages.IsBase)
	if _, ok := solution.(*request.Locked); !ok {
		return submission{}, request.NotSolved(solution, "The new lock is too large to be stored")
	}
	known := solved{packages: *r.Packages, solution: solution}
	if p.GetDryRun() {
		return submission{}, s.checkLayersPlan(ctx, r, known)
	}
	out, err := s.submitLayers(ctx, r, known)
	if errors.Is(err, errNoLayers) {
		return out, fault.Unsupported.Newf("No worker assembles images from packages: `slipway info` shows what the server can do")
	}
	return out, err
}

// checkLayersPlan makes the checks of submitLayers without a submission.
func (s *Service) checkLayersPlan(ctx context.Context, r request.Resolved, known solved) error {
	base, err := s.baseOf(ctx, r, known)
	if err != nil {
		return err
	}
	lock, _ := known.solution.(*request.Locked)
	b, err := s.draft(ctx, r, r.PackagePlan(known.packages, lock, base))
	if err != nil {
		return err
	}
	return s.checkTargets(r.Caller, b)
}

// actAs sets the platform and the workspace that a request acts in.
func actAs(raw *containerv1.ContainerRequest, who *platformv1.Identity) {
	raw.PlatformEndpoint = who.GetEndpoint()
	if w := who.GetWorkspaceId(); w != 0 {
		raw.PlatformWorkspaceId = proto.Int64(w)
	}
}

// patchedText returns a new lock for all platforms as a file.
func patchedText(now *condav1.SolvePackagesResponse) (string, error) {
	var all conda.Locks
	for i := range now.GetRecords() {
		all = append(all, &condav1.SolvePackagesResponse{
			Records: now.GetRecords()[i : i+1], Subdirs: now.GetSubdirs()[i : i+1], Channels: now.GetChannels(), ChannelUrls: now.GetChannelUrls(),
		})
	}
	return all.Text()
}
