package metrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"

	"slipway.dev/services/internal/fault"
)

// A metric is the name of a count in tables and responses.
type metric string

const (
	builds       metric = "builds"
	buildSeconds metric = "build_seconds" // in reports of usage only
	mirrors      metric = "mirrors"
	pulls        metric = "pulls"
	filesystem   metric = "filesystem"
)

// metricOf returns the metric of an event; "" if it is unknown.
func metricOf(m metricsv1.Metric) metric {
	switch m {
	case metricsv1.Metric_METRIC_BUILDS:
		return builds
	case metricsv1.Metric_METRIC_MIRRORS:
		return mirrors
	case metricsv1.Metric_METRIC_PULLS:
		return pulls
	case metricsv1.Metric_METRIC_FILESYSTEM:
		return filesystem
	case metricsv1.Metric_METRIC_BUILD_SECONDS:
		return buildSeconds
	case metricsv1.Metric_METRIC_UNSPECIFIED:
	}
	return ""
}

// CountBuilds returns the number of builds.
func (s *Service) CountBuilds(ctx context.Context, req *metricsv1.CountBuildsRequest) (*metricsv1.CountBuildsResponse, error) {
	r, err := s.handle(ctx, builds, req)
	return &metricsv1.CountBuildsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// CountMirrors returns the number of mirrors.
func (s *Service) CountMirrors(ctx context.Context, req *metricsv1.CountMirrorsRequest) (*metricsv1.CountMirrorsResponse, error) {
	r, err := s.handle(ctx, mirrors, req)
	return &metricsv1.CountMirrorsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// CountPulls returns the number of pulls.
func (s *Service) CountPulls(ctx context.Context, req *metricsv1.CountPullsRequest) (*metricsv1.CountPullsResponse, error) {
	r, err := s.handle(ctx, pulls, req)
	return &metricsv1.CountPullsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// CountFilesystemPulls returns the number of pulls of images with the layer of a file system
// client.
func (s *Service) CountFilesystemPulls(ctx context.Context, req *metricsv1.CountFilesystemPullsRequest) (*metricsv1.CountFilesystemPullsResponse, error) {
	r, err := s.handle(ctx, filesystem, req)
	return &metricsv1.CountFilesystemPullsResponse{Metric: r.metric, Count: &r.count, Orgs: r.orgs}, err
}

// A countRequest is a request for one of the counts.
type countRequest interface {
	GetDate() string
	GetOrg() string
}

// A countResult holds the fields of the responses.
type countResult struct {
	metric *string
	count  float64
	orgs   map[string]float64
}

// handle authorizes and validates a request, and returns its result.
func (s *Service) handle(ctx context.Context, m metric, q countRequest) (countResult, error) {
	if err := s.authorize(ctx); err != nil {
		return countResult{}, err
	}
	day, org := q.GetDate(), strings.ToLower(q.GetOrg())
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return countResult{}, fault.Invalid.New("date must be a day of the calendar such as 2026-02-28", err)
	}
	r, err := s.read(ctx, m, day, org)
	if err != nil {
		return countResult{}, s.deps.DB.Fault("reading counts", err)
	}
	return r, nil
}

// read returns the count of a day ("" for all days) and an organisation ("" for all). Which
// fields are set depends on the query (gateway/contract/container-service.md#counts).
func (s *Service) read(ctx context.Context, m metric, day, org string) (countResult, error) {
	name := string(m)
	if org != "" {
		n, err := s.store.count(ctx, m, day, org)
		if day != "" {
			return countResult{count: n}, err
		}
		return countResult{metric: &name, count: n, orgs: map[string]float64{org: n}}, err
	}
	orgs, err := s.store.orgs(ctx, m, day)
	if err != nil {
		return countResult{}, err
	}
	r := countResult{metric: &name, orgs: orgs}
	for _, n := range orgs {
		r.count += n
	}
	delete(orgs, "") // events without an organisation are included in the count only
	return r, nil
}

// dayOf returns a day in the stored form from the days since 1970-01-01.
func dayOf(days int32) string {
	return time.Unix(0, 0).UTC().AddDate(0, 0, int(days)).Format(time.DateOnly)
}

// An eventKey identifies the count that an event is added to.
type eventKey struct {
	metric   metric
	day, org string
}

func (k eventKey) String() string { return fmt.Sprintf("%s %s %s", k.metric, k.day, k.org) }
