package metrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/fault"
)

// metric is what is counted, as tables and answers name it.
type metric string

const (
	builds     metric = "builds"
	pulls      metric = "pulls"
	filesystem metric = "filesystem"
)

// metricOf is the metric of an event; "" for one that is not known.
func metricOf(m metricsv1.Metric) metric {
	switch m {
	case metricsv1.Metric_METRIC_BUILDS:
		return builds
	case metricsv1.Metric_METRIC_PULLS:
		return pulls
	case metricsv1.Metric_METRIC_FILESYSTEM:
		return filesystem
	case metricsv1.Metric_METRIC_UNSPECIFIED:
	}
	return ""
}

// CountBuilds answers builds.
func (s *Service) CountBuilds(ctx context.Context, req *metricsv1.CountBuildsRequest) (*metricsv1.CountBuildsResponse, error) {
	r, err := s.ask(ctx, builds, req)
	return &metricsv1.CountBuildsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// CountPulls answers pulls.
func (s *Service) CountPulls(ctx context.Context, req *metricsv1.CountPullsRequest) (*metricsv1.CountPullsResponse, error) {
	r, err := s.ask(ctx, pulls, req)
	return &metricsv1.CountPullsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// CountFilesystemPulls answers pulls of images with a file system client's layer.
func (s *Service) CountFilesystemPulls(ctx context.Context, req *metricsv1.CountFilesystemPullsRequest) (*metricsv1.CountFilesystemPullsResponse, error) {
	r, err := s.ask(ctx, filesystem, req)
	return &metricsv1.CountFilesystemPullsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// question is the request of each of the three.
type question interface {
	GetDate() string
	GetOrg() string
}

// reply is what the answers of the three have in common.
type reply struct {
	metric *string
	count  float64
	orgs   map[string]float64
}

func (s *Service) ask(ctx context.Context, m metric, q question) (reply, error) {
	if err := s.admit(ctx); err != nil {
		return reply{}, err
	}
	day, org := q.GetDate(), strings.ToLower(q.GetOrg())
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return reply{}, fault.Invalid.New("date must be a day of the calendar such as 2026-02-28", err)
	}
	r, err := s.answer(ctx, m, day, org)
	if err != nil {
		return reply{}, s.deps.DB.Fault("reading counts", err)
	}
	return r, nil
}

// answer has a form for each query (gateway/contract/container-service.md#counts).
func (s *Service) answer(ctx context.Context, m metric, day, org string) (reply, error) {
	name := string(m)
	if org != "" {
		n, err := s.store.count(ctx, m, day, org)
		if day != "" {
			return reply{count: n}, err
		}
		return reply{metric: &name, count: n, orgs: map[string]float64{org: n}}, err
	}
	orgs, err := s.store.orgs(ctx, m, day)
	if err != nil {
		return reply{}, err
	}
	r := reply{metric: &name, orgs: orgs}
	for _, n := range orgs {
		r.count += n
	}
	delete(orgs, "") // events without an organisation, which are counted all the same
	return r, nil
}

// dayOf is a day as it is stored, from the days since 1970-01-01.
func dayOf(days int32) string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(days)).Format(time.DateOnly)
}

// eventKey is what events are added up by.
type eventKey struct {
	metric   metric
	day, org string
}

func (k eventKey) String() string { return fmt.Sprintf("%s %s %s", k.metric, k.day, k.org) }
