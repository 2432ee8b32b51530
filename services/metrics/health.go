package metrics

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// Health is the state of this process.
type Health struct {
	// Dependencies are what it depends on.
	Dependencies []Dependency
	// Certificates are its certificates.
	Certificates []Certificate
}

// A Dependency is something that the process depends on.
type Dependency struct {
	// Name is its name in /readyz.
	Name string
	// Required states that the process is not ready without it.
	Required bool
	// Problem is why it does not work; "" if it does.
	Problem string
}

// A Certificate is a certificate of the process.
type Certificate struct {
	// Setting is the setting that names it.
	Setting string
	// End is when it expires.
	End time.Time
}

// GetHealth returns the state of this process. It is examined at most once per storageAge, like the
// stores. Only administrators may read it, since problems name servers and files.
func (s *Service) GetHealth(ctx context.Context, _ *metricsv1.GetHealthRequest) (*metricsv1.GetHealthResponse, error) {
	if err := s.authorizeAdministrator(ctx); err != nil {
		return nil, err
	}
	h, err := s.health.get(ctx, s.deps.Now, func(ctx context.Context) (Health, error) { return s.deps.Health(ctx), nil })
	if err != nil {
		return nil, err
	}
	out := &metricsv1.GetHealthResponse{Time: timestamppb.New(s.deps.Now().UTC().Truncate(time.Microsecond))}
	for _, d := range h.Dependencies {
		m := &metricsv1.Dependency{Name: proto.String(d.Name), Works: proto.Bool(d.Problem == ""), Required: proto.Bool(d.Required)}
		if d.Problem != "" {
			m.Problem = proto.String(d.Problem)
		}
		out.Dependencies = append(out.Dependencies, m)
	}
	for _, c := range h.Certificates {
		out.Certificates = append(out.Certificates, &metricsv1.Certificate{Setting: proto.String(c.Setting), ExpiryTime: timestamppb.New(c.End)})
	}
	return out, nil
}
