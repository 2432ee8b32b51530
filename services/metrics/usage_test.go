package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/metrics"
)

// directory is a platform with organisation 30 (workspaces 20 and 21) and users 10 and 11. The
// access token is the name of the scope that its owner may read.
type directory struct {
	metrics.Platform
	asked []int // the sizes of requests for names
}

func (d *directory) AuthorizeUsage(_ context.Context, req *platformv1.AuthorizeUsageRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeUsageResponse, error) {
	id := &platformv1.Identity{Endpoint: "e", UserId: 10}
	if !slices.Equal(req.GetScopes(), []string{"admin"}) {
		return nil, fault.Denied.Newf("the scopes are %q", req.GetScopes())
	}
	switch req.GetAccessToken() {
	case "everything":
		return &platformv1.AuthorizeUsageResponse{Identity: id, Everything: true}, nil
	case "own":
		return &platformv1.AuthorizeUsageResponse{Identity: id, UserId: 10}, nil
	case "own in a workspace":
		return &platformv1.AuthorizeUsageResponse{Identity: id, UserId: 10, WorkspaceId: 21}, nil
	case "workspace":
		return &platformv1.AuthorizeUsageResponse{Identity: id, WorkspaceId: 21}, nil
	case "organisation":
		return &platformv1.AuthorizeUsageResponse{Identity: id, OrgId: 30, OrgWorkspaceIds: []int64{20, 21}}, nil
	case "organisation without workspaces":
		return &platformv1.AuthorizeUsageResponse{Identity: id, OrgId: 31}, nil
	case "nothing":
		return &platformv1.AuthorizeUsageResponse{Identity: id}, nil
	}
	return nil, fault.Denied.Newf("no")
}

func (d *directory) DescribeNames(_ context.Context, req *platformv1.DescribeNamesRequest, _ ...grpc.CallOption) (*platformv1.DescribeNamesResponse, error) {
	d.asked = append(d.asked, len(req.GetUserIds())+len(req.GetWorkspaceIds())+len(req.GetOrgIds()))
	resp := &platformv1.DescribeNamesResponse{Users: map[int64]string{}, Workspaces: map[int64]*platformv1.WorkspaceName{}, Orgs: map[int64]string{}}
	for _, id := range req.GetUserIds() {
		if name := map[int64]string{10: "ada", 11: "=cmd|' /C calc'!A1"}[id]; name != "" {
			resp.Users[id] = name
		}
	}
	for _, id := range req.GetWorkspaceIds() {
		if name := map[int64]string{20: "bench", 21: "desk"}[id]; name != "" {
			resp.Workspaces[id] = &platformv1.WorkspaceName{Name: name, OrgId: 30}
		}
	}
	for _, id := range req.GetOrgIds() {
		if id == 30 {
			resp.Orgs[id] = "lab"
		}
	}
	return resp, nil
}

// reports starts a service with a directory, on 2026-03-02.
func (p *deployment) reports(t *testing.T) (usagev1.UsageServiceClient, *directory) {
	t.Helper()
	d := &directory{}
	s, err := metrics.New(metrics.Deps{
		DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Platform: d,
		Now: func() time.Time { return time.Date(2026, 3, 2, 23, 59, 0, 0, time.UTC) },
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := testkit.Serve(t, s.Register, "gateway")
	testkit.Run(t, s.Run)
	return usagev1.NewUsageServiceClient(conn), d
}

func withToken(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// of returns an event of a user in a workspace on a day, counted from 2026-02-27.
func of(m metricsv1.Metric, days int32, user, workspace, robotOrg, amount int64) *metricsv1.Event {
	e := events(m, 1, days, "example.org")[0]
	e.UserId, e.WorkspaceId, e.RobotOrgId, e.Amount = user, workspace, robotOrg, amount
	return e
}

// table returns the rows of a CSV report without its header.
func table(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n")
	return lines[1:]
}

func TestReportsOfUsage(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		c, _ := p.reports(t)
		const builds, seconds, pull, layer = metricsv1.Metric_METRIC_BUILDS, metricsv1.Metric_METRIC_BUILD_SECONDS, metricsv1.Metric_METRIC_PULLS, metricsv1.Metric_METRIC_FILESYSTEM
		batch := &metricsv1.Batch{Source: "s", First: 1, Events: []*metricsv1.Event{
			of(builds, 0, 10, 20, 0, 0), of(builds, 0, 10, 20, 0, 0), of(seconds, 1, 10, 20, 0, 90), of(seconds, 1, 10, 20, 0, 5),
			of(pull, 1, 10, 21, 0, 0), of(pull, 1, 10, 0, 0, 0), of(layer, 1, 10, 0, 0, 0),
			of(pull, 0, 11, 21, 0, 0), of(pull, 2, 12, 29, 0, 0), // a deleted user in a deleted workspace
			of(pull, 2, 13, 0, 30, 0), of(pull, 2, 13, 0, 30, 0), // a robot of the organisation
			of(pull, 2, 0, 0, 0, 0), of(99, 2, 10, 20, 0, 5),
		}}
		publish(t, p.bus, batch)
		publish(t, p.bus, &metricsv1.Batch{Source: "s", First: 5, Events: batch.GetEvents()[4:]}) // again
		for _, q := range []struct {
			token, by string
			want      []string
		}{
			{"everything", "day", []string{"2026-02-27,,,,,,,2,0,1,0", "2026-02-28,,,,,,,0,95,2,1", "2026-03-01,,,,,,,0,0,4,0"}},
			{"everything", "user", []string{
				",,,,,,,0,0,1,0", ",10,ada,,,,,2,95,2,1", ",11,'=cmd|' /C calc'!A1,,,,,0,0,1,0", ",12,,,,,,0,0,1,0", ",13,,,,,,0,0,2,0",
			}},
			{"everything", "workspace", []string{
				",,,,,,,0,0,2,1", ",,,29,,,,0,0,1,0", ",,,,,30,lab,0,0,2,0", ",,,20,bench,30,lab,2,95,0,0", ",,,21,desk,30,lab,0,0,2,0",
			}},
			{"everything", "organization", []string{",,,,,,,0,0,3,1", ",,,,,30,lab,2,95,4,0"}},
			{"everything", "organization,day", []string{
				"2026-02-27,,,,,30,lab,2,0,1,0", "2026-02-28,,,,,,,0,0,1,1", "2026-02-28,,,,,30,lab,0,95,1,0", "2026-03-01,,,,,,,0,0,2,0", "2026-03-01,,,,,30,lab,0,0,2,0",
			}},
			{"organisation", "user", []string{",10,ada,,,,,2,95,1,0", ",11,'=cmd|' /C calc'!A1,,,,,0,0,1,0", ",13,,,,,,0,0,2,0"}},
			{"organisation without workspaces", "user", []string{}},
			{"workspace", "user,workspace", []string{",10,ada,21,desk,30,lab,0,0,1,0", ",11,'=cmd|' /C calc'!A1,21,desk,30,lab,0,0,1,0"}},
			{"own", "workspace", []string{",,,,,,,0,0,1,1", ",,,20,bench,30,lab,2,95,0,0", ",,,21,desk,30,lab,0,0,1,0"}},
			{"own in a workspace", "", []string{",10,ada,,,,,0,0,1,0"}},
		} {
			testkit.Until(t, q.token+" by "+q.by, func() error {
				got, err := c.GetUsage(withToken(t.Context(), q.token), &usagev1.GetUsageRequest{By: q.by, Format: "csv"})
				if err != nil {
					return err
				}
				if d := cmp.Diff(q.want, table(got.GetCsv())); d != "" {
					return errors.New(d)
				}
				return nil
			})
		}
		got, err := c.GetUserUsage(withToken(t.Context(), "own"), &usagev1.GetUserUsageRequest{From: "2026-02-28", To: "2026-02-28", By: "day,user"})
		if err != nil {
			t.Fatal(err)
		}
		if u := got.GetRows(); got.GetFrom() != "2026-02-28" || got.GetTo() != "2026-02-28" || len(u) != 1 || u[0].GetDay().GetValue() != "2026-02-28" ||
			u[0].GetUserId().GetValue() != 10 || u[0].GetUserName().GetValue() != "ada" || u[0].GetWorkspaceId() != nil || u[0].GetOrgId() != nil ||
			u[0].GetBuildSeconds() != 95 || u[0].GetPulls() != 2 || u[0].GetFilesystemPulls() != 1 {
			t.Errorf("got %v", got)
		}
		// The counts by domain do not depend on users.
		n, err := metrics.NewForBench(t, db)(t.Context(), "", "example.org")
		if err != nil || n != 7 {
			t.Errorf("%v pulls of the domain, %v", n, err)
		}
	})
}

func TestReportsRefuse(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	c, _ := p.reports(t)
	for _, q := range []struct {
		name, token string
		req         *usagev1.GetUsageRequest
		want        error
	}{
		{"anonymous", "", &usagev1.GetUsageRequest{}, fault.Unauthenticated},
		{"denied", "x", &usagev1.GetUsageRequest{}, fault.Denied},
		{"a scope without any right", "nothing", &usagev1.GetUsageRequest{}, fault.Denied},
		{"denied with an invalid day", "x", &usagev1.GetUsageRequest{From: "x"}, fault.Denied},
		{"no day", "everything", &usagev1.GetUsageRequest{From: "2026-02-29"}, fault.Invalid},
		{"another form", "everything", &usagev1.GetUsageRequest{To: "2026-2-1"}, fault.Invalid},
		{"from after to", "everything", &usagev1.GetUsageRequest{From: "2026-02-02", To: "2026-02-01"}, fault.Invalid},
		{"too many days", "everything", &usagev1.GetUsageRequest{From: "2025-01-01", To: "2026-02-05"}, fault.Invalid},
		{"400 days", "everything", &usagev1.GetUsageRequest{From: "2025-01-01", To: "2026-02-04"}, nil},
		{"an unknown format", "everything", &usagev1.GetUsageRequest{Format: "xml"}, fault.Invalid},
		{"an unknown column", "everything", &usagev1.GetUsageRequest{By: "user,x"}, fault.Invalid},
		{"a column twice", "everything", &usagev1.GetUsageRequest{By: "user,day,user"}, nil},
		{"a long list of columns", "everything", &usagev1.GetUsageRequest{By: strings.Repeat("user,", 20) + "user"}, fault.Invalid},
		{"an empty column", "everything", &usagev1.GetUsageRequest{By: "user,"}, fault.Invalid},
		{"all columns", "everything", &usagev1.GetUsageRequest{By: "user,day,workspace,organization"}, nil},
	} {
		ctx := t.Context()
		if q.token != "" {
			ctx = withToken(ctx, q.token)
		}
		if _, err := c.GetUsage(ctx, q.req); !errors.Is(err, q.want) {
			t.Errorf("%s: %v, want %v", q.name, err, q.want)
		}
	}
	alone, err := metrics.New(metrics.Deps{DB: p.db, Bus: p.bus, Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	conn, _ := testkit.Serve(t, alone.Register, "gateway")
	_, err = usagev1.NewUsageServiceClient(conn).GetUsage(withToken(t.Context(), "everything"), &usagev1.GetUsageRequest{})
	if !errors.Is(err, fault.Unsupported) {
		t.Errorf("without a platform: %v", err)
	}
}

// TestReportsAreBounded reads a report of as many users as it may have rows, and of one more.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		c, d := p.reports(t)
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`
			INSERT INTO metrics_usage (day, user_id, workspace_id, metric, robot_org_id, amount)
			WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d) SELECT '2026-03-01', 1000 + n, 0, 'pulls', 0, 1 FROM n`, limits.UsageRows)); err != nil {
			t.Fatal(err)
		}
		got, err := c.GetUsage(withToken(t.Context(), "everything"), &usagev1.GetUsageRequest{})
		if err != nil || len(got.GetRows()) != limits.UsageRows {
			t.Fatalf("%d rows, %v", len(got.GetRows()), err)
		}
		if slices.Max(d.asked) > limits.DescribedNames {
			t.Errorf("the platform was asked for %d names", d.asked)
		}
		if _, err := db.ExecContext(t.Context(), `INSERT INTO metrics_usage (day, user_id, workspace_id, metric, robot_org_id, amount) VALUES ('2026-03-01', 1, 0, 'pulls', 0, 1)`); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetUsage(withToken(t.Context(), "everything"), &usagev1.GetUsageRequest{}); !errors.Is(err, fault.Invalid) {
			t.Errorf("a report with one row more: %v", err)
		}
		if _, err := c.GetUsage(withToken(t.Context(), "everything"), &usagev1.GetUsageRequest{By: "day"}); err != nil {
			t.Errorf("the sum of all rows: %v", err)
		}
	})
}

// TestUsageExpires checks that the usage of old days is deleted, and that of the oldest day of a
// report is not.
func TestUsageExpires(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		today := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
		oldest, older := today.AddDate(0, 0, 1-limits.UsageDays).Format(time.DateOnly), today.AddDate(0, 0, -limits.UsageDays).Format(time.DateOnly)
		for _, day := range []string{oldest, older} {
			if _, err := db.ExecContext(t.Context(), `
				INSERT INTO metrics_usage (day, user_id, workspace_id, metric, robot_org_id, amount) VALUES ($1, 10, 0, 'pulls', 0, 1)`, day); err != nil {
				t.Fatal(err)
			}
		}
		c, _ := p.reports(t)
		testkit.Until(t, "the deletion", func() error {
			var days string
			err := db.QueryRowContext(t.Context(), `SELECT MIN(day) FROM metrics_usage`).Scan(&days)
			if err == nil && days != oldest {
				err = fmt.Errorf("the oldest day is %s", days)
			}
			return err
		})
		got, err := c.GetUsage(withToken(t.Context(), "everything"), &usagev1.GetUsageRequest{From: oldest, By: "day"})
		if err != nil || len(got.GetRows()) != 1 || got.GetRows()[0].GetDay().GetValue() != oldest {
			t.Errorf("got %v %v", got, err)
		}
	})
}
