package build

import (
	"context"
	"slices"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
)

// ListEngines returns what the workers can build now.
func (s *Service) ListEngines(context.Context, *buildv1.ListEnginesRequest) (*buildv1.ListEnginesResponse, error) {
	out := &buildv1.ListEnginesResponse{}
	can := s.workers.Kinds()
	for _, name := range []string{engine.BuildKit, engine.Freeze, engine.Mirror, engine.Sif, engine.Conda} {
		e := &buildv1.Engine{Name: name}
		for _, c := range can {
			if c.Engine == name && !slices.Contains(e.Architectures, c.Architecture) {
				e.Architectures = append(e.Architectures, c.Architecture)
			}
		}
		slices.Sort(e.Architectures)
		if len(e.Architectures) == 0 {
			if e.Problem = s.workers.Problem(name); e.Problem == "" {
				e.Problem = "no live worker has this engine"
			}
		}
		out.Engines = append(out.Engines, e)
	}
	return out, nil
}
