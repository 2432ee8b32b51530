package container

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/upstream"
)

// checkAbilities rejects requests that would fail later, because this service lacks an
// ability or the caller lacks credentials.
func (s *Service) checkAbilities(ctx context.Context, p request.Parsed, who caller.ID) error {
	if err := s.switchedOff(p.Raw); err != nil {
		return err
	}
	if request.IsScanned(p.Raw) {
		if _, err := s.scanDatabase(ctx); err != nil {
			return err
		}
	}
	if err := s.checkPusher(ctx, p, who); err != nil {
		return err
	}
	return s.checkCache(ctx, p, who)
}

// switchedOff rejects requests for capabilities that are disabled
// (gateway/contract/container-service.md#capabilities). The build service checks those that
// depend on workers.
func (s *Service) switchedOff(r *containerv1.ContainerRequest) error {
	switch {
	case request.IsRecipe(r) && (s.deps.Build == nil || s.deps.Builds == Builds{}):
		return fault.Unsupported.Newf("This service does not build images: give an existing one as containerImage").WithCode(fault.BuildUnsupported)
	case r.GetFormat() == request.FormatSif && !r.GetFreeze() && (s.deps.Build == nil || s.deps.Builds == Builds{}):
		return fault.Unsupported.Newf("This service makes no Singularity images: leave format out, and have Singularity convert the name that is returned (docker://)").WithCode(fault.BuildUnsupported)
	case r.GetMirror() && s.deps.Build == nil:
		return fault.Unsupported.Newf("This service does not mirror images: leave mirror out, and pull the name that is returned").WithCode(fault.BuildUnsupported)
	case r.GetFreeze() && s.deps.Build == nil:
		return fault.Unsupported.Newf("This service does not freeze images: leave freeze out, and pull the name that is returned").WithCode(fault.BuildUnsupported)
	}
	return nil
}

// checkPusher rejects callers who cannot push to buildRepository, before the build starts: the
// caller's role may not use the credentials of the workspace, and a Singularity image is only
// pushed with the user's own credentials from the platform
// (gateway/contract/container-service.md#singularity-images).
func (s *Service) checkPusher(ctx context.Context, p request.Parsed, who caller.ID) error {
	if p.Raw.GetBuildRepository() == "" || who.IsAnonymous() && !p.IsSif() {
		return nil
	}
	registry, repository, err := oci.ParseRepository(p.Raw.GetBuildRepository())
	if err != nil {
		return err
	}
	access, err := s.deps.Keychain.BuildAccess(ctx, who, registry, repository)
	if err != nil {
		return err
	}
	if access.Withheld != "" {
		return fault.Invalid.Newf("buildRepository: nothing can be pushed to %s/%s: %s; ask for the role launch", registry, repository, access.Withheld)
	}
	if p.IsSif() && access.Login == (upstream.Login{}) {
		return fault.Invalid.Newf("buildRepository: a Singularity image is pushed with your own credentials; add those for %s at the platform, and send an access token, "+
			"or leave buildRepository and freeze out", registry)
	}
	return nil
}

// checkCache rejects a cache in the registry that the service pushes its builds to, unless
// the caller's own login can push there. A build has one login for that registry, which
// must not be the service's.
func (s *Service) checkCache(ctx context.Context, p request.Parsed, who caller.ID) error {
	if p.Raw.GetCacheRepository() == "" {
		return nil
	}
	registry, repository, err := oci.ParseRepository(p.Raw.GetCacheRepository())
	if err != nil || s.deps.Builds.Registry == "" || !oci.SameHost(registry, s.deps.Builds.Registry) {
		return err
	}
	if p.Raw.GetBuildRepository() != "" {
		login, err := s.deps.Keychain.UserLogin(ctx, who, registry, repository)
		if err != nil || login != (upstream.Login{}) {
			return err
		}
	}
	return fault.Invalid.Newf("cacheRepository: this service pushes its own images to %s, with its own credentials; name a repository at another registry, "+
		"or add your credentials for it at the platform and give buildRepository too", registry)
}

// contractVersion is the version of the REST contract that is implemented. Existing clients
// warn if it is older than they expect.
const contractVersion = "1.31.0"

// GetServiceInfo returns the version of the service.
func (s *Service) GetServiceInfo(context.Context, *containerv1.GetServiceInfoRequest) (*containerv1.GetServiceInfoResponse, error) {
	return &containerv1.GetServiceInfoResponse{ServiceInfo: &containerv1.ServiceInfo{
		Version:        proto.String(contractVersion),
		CommitId:       proto.String(s.deps.Commit),
		ProductVersion: rpc.Optional(s.deps.Version),
	}}, nil
}

// ListAbilities returns what the service can currently do. Requests that it cannot fulfil
// are rejected with the same reasons.
func (s *Service) ListAbilities(ctx context.Context, _ *containerv1.ListAbilitiesRequest) (*containerv1.ListAbilitiesResponse, error) {
	out := &containerv1.ListAbilitiesResponse{ProductVersion: rpc.Optional(s.deps.Version)}
	out.Abilities = append(s.engines(ctx), ability("scan", s.scanProblem(ctx)))
	return out, nil
}

// engines returns the abilities that depend on workers.
func (s *Service) engines(ctx context.Context) []*containerv1.Ability {
	names := map[string]string{"buildkit": "build", "freeze": "freeze", "mirror": "mirror", request.FormatSif: "sif", "conda": "conda"}
	problem := "this service is run without builds"
	if s.deps.Build != nil {
		resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
		if err == nil {
			return s.abilitiesOf(resp.GetEngines(), names)
		}
		s.deps.Log.WarnContext(ctx, "The engines of the workers cannot be read", "err", err)
		problem = "the workers cannot be queried right now; try again"
	}
	return []*containerv1.Ability{ability("build", problem), ability("freeze", problem), ability("mirror", problem), ability("sif", problem), s.condaAbility(problem)}
}

func (s *Service) abilitiesOf(engines []*buildv1.Engine, names map[string]string) []*containerv1.Ability {
	var out []*containerv1.Ability
	for _, e := range engines {
		a := ability(names[e.GetName()], e.GetProblem())
		if a.GetName() == "build" && s.deps.Builds == (Builds{}) {
			a = ability("build", "this service has no repository for what is built: build_repository is not set")
		}
		if a.GetName() == "conda" {
			a = s.condaAbility(e.GetProblem())
		}
		for _, arch := range e.GetArchitectures() {
			if a.GetAvailable() && arch != "any" {
				a.Platforms = append(a.Platforms, "linux/"+arch)
			}
		}
		out = append(out, a)
	}
	return out
}

// condaAbility returns the ability to assemble images of Conda packages without build
// steps. problem is the reason why the workers cannot do this, or "".
func (s *Service) condaAbility(problem string) *containerv1.Ability {
	switch {
	case s.deps.Conda == nil:
		problem = "no process plays the role conda; packages are solved while their image is built in steps"
	case problem != "":
		problem = "packages are found and locked, but not put into images without steps: " + problem
	}
	return ability("conda", problem)
}

// ability returns an ability that is available unless problem is set.
func ability(name, problem string) *containerv1.Ability {
	return &containerv1.Ability{Name: proto.String(name), Available: proto.Bool(problem == ""), Problem: rpc.Optional(problem)}
}

// scanProblem returns why images are not scanned; "" if they are.
func (s *Service) scanProblem(ctx context.Context) string {
	_, err := s.scanDatabase(ctx)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fault.Unsupported):
		return "scan_database is not set"
	}
	s.deps.Log.InfoContext(ctx, "Images cannot be scanned now", "err", err)
	return "the database of vulnerabilities is not available right now; try again"
}
