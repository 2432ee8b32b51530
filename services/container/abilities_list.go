package container

import (
	"context"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/rpc"
)

// ListAbilities says what the service can do now. It is for people and scripts that ask
// first; a request that cannot be done is refused with the same reason.
func (s *Service) ListAbilities(ctx context.Context, _ *containerv1.ListAbilitiesRequest) (*containerv1.ListAbilitiesResponse, error) {
	out := &containerv1.ListAbilitiesResponse{ProductVersion: rpc.Optional(s.deps.Version)}
	const never = "it is not supported"
	out.Abilities = append(s.engines(ctx), ability("mirror", never), ability("scan", never))
	return out, nil
}

// engines are the abilities that workers give.
func (s *Service) engines(ctx context.Context) []*containerv1.Ability {
	names := map[string]string{"buildkit": "build", "freeze": "freeze", request.FormatSif: "sif", "conda": "conda"}
	problem := "this service is run without builds"
	if s.deps.Build != nil {
		resp, err := s.deps.Build.ListEngines(ctx, &buildv1.ListEnginesRequest{})
		if err == nil {
			return s.abilitiesOf(resp.GetEngines(), names)
		}
		s.deps.Log.WarnContext(ctx, "What workers can do was not read", "err", err)
		problem = "workers cannot be asked right now; try again"
	}
	return []*containerv1.Ability{ability("build", problem), ability("freeze", problem), ability("sif", problem), s.condaAbility(problem)}
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

// condaAbility is that Conda packages become images without steps; problem is what
// keeps the workers from it.
func (s *Service) condaAbility(problem string) *containerv1.Ability {
	switch {
	case s.deps.Conda == nil:
		problem = "no process plays the role conda; packages are solved while their image is built in steps"
	case problem != "":
		problem = "packages are found and locked, but not put into images without steps: " + problem
	}
	return ability("conda", problem)
}

// ability is one that there is, unless there is a problem.
func ability(name, problem string) *containerv1.Ability {
	return &containerv1.Ability{Name: proto.String(name), Available: proto.Bool(problem == ""), Problem: rpc.Optional(problem)}
}
