package container

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

const here = "https://p"

// daysOf is a platform with the limits requestDays of organisations.
type daysOf struct {
	platformv1.AccessServiceClient
	days map[int64]string
	err  error
}

func (d daysOf) GetLimits(context.Context, *platformv1.GetLimitsRequest, ...grpc.CallOption) (*platformv1.GetLimitsResponse, error) {
	resp := &platformv1.GetLimitsResponse{Endpoint: here, Limits: []*platformv1.AppliedLimit{
		{Of: "organization", Id: 3, Kind: "builds", Value: "1/1h"},
		{Of: "workspace", Id: 4, Kind: "requestDays", Value: "1"}, // which the platform rejects
	}}
	for id, value := range d.days {
		resp.Limits = append(resp.Limits, &platformv1.AppliedLimit{Of: "organization", Id: id, Kind: "requestDays", Value: value})
	}
	return resp, d.err
}

// A sweeper is a service with stored requests and a manual clock.
type sweeper struct {
	*Service
	t        *testing.T
	db       *sqldb.DB
	now      time.Time
	platform *daysOf
	tokens   map[string]string // by the name in the test
}

func newSweeper(t *testing.T, db *sqldb.DB, retention time.Duration) *sweeper {
	t.Helper()
	if err := db.Migrate(t.Context(), "container", Migrations()); err != nil {
		t.Fatal(err)
	}
	w := &sweeper{t: t, db: db, now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), platform: &daysOf{}, tokens: map[string]string{}}
	w.Service = &Service{
		deps:  Deps{DB: db, Log: testkit.Log(t), Now: func() time.Time { return w.now }, Platform: w.platform, Settings: Settings{Retention: retention}},
		store: store.New(db),
	}
	return w
}

// add stores a request whose name expired some time ago, with a digest that was recorded later.
func (w *sweeper) add(name string, who *platformv1.Identity, ago time.Duration) {
	w.t.Helper()
	token := tokens.New()
	w.tokens[name] = token
	expires := w.now.Add(-ago)
	rec := store.Record{Created: expires.Add(-time.Hour), Expires: expires, Plan: &containerv1.Plan{Token: token, Identity: who}, Request: &containerv1.ContainerRequest{}}
	if err := errors.Join(w.store.Insert(w.t.Context(), rec), w.store.AddDigest(w.t.Context(), tokens.IDOf(token), "sha256:1", expires)); err != nil {
		w.t.Fatal(err)
	}
}

// stored returns the names of the requests that can be described, in order.
func (w *sweeper) stored() (names []string) {
	w.t.Helper()
	for name, token := range w.tokens {
		r, err := w.store.Get(w.t.Context(), token)
		if err == nil && len(r.Plan.GetDigests()) == 1 {
			names = append(names, name)
		} else if err == nil || !errors.Is(err, fault.NotFound) {
			w.t.Errorf("%s: %v, %v", name, r.Plan, err)
		}
	}
	slices.Sort(names)
	return names
}

func (w *sweeper) count(table string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRowContext(w.t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func of(org, workspace int64) *platformv1.Identity {
	return &platformv1.Identity{Endpoint: here, UserId: 7, WorkspaceId: workspace, OrganizationId: org}
}

// TestOrganizationsHaveAShorterRetention deletes the requests of organisations after their days,
// those of others after the time of the settings, and no request whose name has not expired.
func TestOrganizationsHaveAShorterRetention(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newSweeper(t, db, 90*day)
		w.platform.days = map[int64]string{3: "1", 5: "0", 6: "365", 7: "30"}
		w.add("lab, valid", of(3, 4), -time.Minute)
		w.add("lab, a minute less than a day", of(3, 4), day-time.Minute)
		w.add("lab, a day and a minute", of(3, 4), day+time.Minute)
		w.add("lab, another workspace", of(3, 9), 2*day)
		w.add("lab, revoked", of(3, 4), 2*day)
		if _, err := db.ExecContext(t.Context(), `UPDATE container_requests SET revoked_at = 1 WHERE id = $1`, tokens.IDOf(w.tokens["lab, revoked"])); err != nil {
			t.Fatal(err)
		}
		w.add("lab, a robot", &platformv1.Identity{Endpoint: here, UserId: 8, WorkspaceId: 4, RobotOrgId: 3, OrganizationId: 3}, 2*day)
		w.add("lab, a robot of an earlier release", &platformv1.Identity{Endpoint: here, UserId: 8, WorkspaceId: 4, RobotOrgId: 3}, 2*day)
		w.add("lab, stored by an earlier release", of(3, 4), 2*day)
		if _, err := db.ExecContext(t.Context(), `UPDATE container_requests SET organization_id = 0 WHERE id = $1`, tokens.IDOf(w.tokens["lab, stored by an earlier release"])); err != nil {
			t.Fatal(err)
		}
		w.add("another platform", &platformv1.Identity{Endpoint: "https://q", UserId: 7, WorkspaceId: 4, OrganizationId: 3}, 2*day)
		w.add("a workspace with the id", of(0, 3), 2*day)
		w.add("personal", &platformv1.Identity{Endpoint: here, UserId: 7}, 2*day)
		w.add("anonymous", nil, 2*day)
		w.add("no limit, 2 days", of(4, 5), 2*day)
		w.add("limit 0, 2 days", of(5, 6), 2*day)
		w.add("longer than the setting, 89 days", of(6, 7), 89*day)
		w.add("longer than the setting, 91 days", of(6, 7), 91*day)
		w.add("30 days, 29 days", of(7, 8), 29*day)
		w.add("30 days, 31 days", of(7, 8), 31*day)
		if !w.sweep(t.Context()) {
			t.Error("the sweep is incomplete")
		}
		if diff := cmp.Diff([]string{
			"30 days, 29 days", "a workspace with the id", "anonymous", "another platform",
			"lab, a minute less than a day", "lab, stored by an earlier release", "lab, valid",
			"limit 0, 2 days", "longer than the setting, 89 days", "no limit, 2 days", "personal",
		}, w.stored()); diff != "" {
			t.Error(diff)
		}
		if n := w.count("container_digests"); n != 11 {
			t.Errorf("%d digests remain", n)
		}
		w.now = w.now.Add(2 * time.Minute)
		w.sweep(t.Context())
		if got := w.stored(); len(got) != 10 || slices.Contains(got, "lab, a minute less than a day") {
			t.Errorf("two minutes later: %v", got)
		}
		w.now = w.now.Add(day)
		w.platform.days = nil // the limits are deleted
		w.sweep(t.Context())
		if got := w.stored(); len(got) != 9 || !slices.Contains(got, "lab, valid") {
			t.Errorf("a day later, without limits: %v", got)
		}
		w.now = w.now.Add(90 * day)
		w.sweep(t.Context())
		if got := w.stored(); got != nil || w.count("container_digests") != 0 {
			t.Errorf("at the end: %v", got)
		}
	})
}

// TestRetentionForever applies the days of an organisation on a server that deletes no requests.
func TestRetentionForever(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newSweeper(t, db, 0)
		w.platform.days = map[int64]string{3: "365"}
		w.add("lab, 364 days", of(3, 4), 364*day)
		w.add("lab, 366 days", of(3, 4), 366*day)
		w.add("other", of(4, 5), 3650*day)
		w.sweep(t.Context())
		if diff := cmp.Diff([]string{"lab, 364 days", "other"}, w.stored()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSweepWithoutPlatform checks that requests of organisations stay while their limits cannot be
// read, and that the setting applies meanwhile.
func TestSweepWithoutPlatform(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newSweeper(t, db, 90*day)
		*w.platform = daysOf{days: map[int64]string{3: "1"}, err: fault.Unavailable.Newf("away")}
		w.add("lab, 2 days", of(3, 4), 2*day)
		w.add("lab, 91 days", of(3, 4), 91*day)
		w.add("other, 91 days", of(4, 5), 91*day)
		if w.sweep(t.Context()) {
			t.Error("the sweep is complete")
		}
		if diff := cmp.Diff([]string{"lab, 2 days"}, w.stored()); diff != "" {
			t.Error(diff)
		}
		w.platform.err = nil
		if !w.sweep(t.Context()) || w.stored() != nil {
			t.Errorf("with the platform: %v", w.stored())
		}
	})
}

// TestReplicasDeleteBatches deletes more requests than two batches with two replicas at the same
// time. Digests are deleted with their requests only.
func TestReplicasDeleteBatches(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newSweeper(t, db, 90*day)
		w.platform.days = map[int64]string{3: "1"}
		w.add("valid", of(3, 4), -time.Minute)
		const old = 2*limits.RequestsDeleted + 100
		exec := func(query string, args ...any) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
				t.Fatal(err)
			}
		}
		expires := sqldb.Micros(w.now.Add(-2 * day))
		exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST($1 AS bigint))
			INSERT INTO container_requests (id, created_at, expires_at, revoked_at, revocation_sent, endpoint, user_id, workspace_id, email, client_ip, build_id, workflow_id, request, plan, organization_id)
			SELECT 'old-' || ((i * 7919) % 10007), created_at, CAST($2 AS bigint) - i, revoked_at, revocation_sent, endpoint, user_id, workspace_id, email, client_ip, build_id, workflow_id, request, plan, organization_id
			FROM n, container_requests`, old, expires)
		exec(`INSERT INTO container_digests (request_id, digest, recorded_at) SELECT id, 'sha256:2', 0 FROM container_requests`)
		if n := w.count("container_requests"); n != old+1 {
			t.Fatalf("%d requests are stored", n)
		}
		var replicas sync.WaitGroup
		for range 2 {
			replicas.Go(func() {
				if !w.sweep(t.Context()) {
					t.Error("the sweep is incomplete")
				}
			})
		}
		replicas.Wait()
		if requests, digests := w.count("container_requests"), w.count("container_digests"); requests != 1 || digests != 2 {
			t.Errorf("%d requests and %d digests remain", requests, digests)
		}
	})
}

// TestSweepEnds checks that a sweep ends with its context, between two batches.
func TestSweepEnds(t *testing.T) {
	t.Parallel()
	w := newSweeper(t, testkit.SQLite(t), 90*day)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := w.deleteBatches(ctx, func() (bool, error) {
		n++
		cancel()
		return true, nil
	})
	if n != 1 || err != nil {
		t.Errorf("%d batches, %v", n, err)
	}
	failure := errors.New("failed")
	if err := w.deleteBatches(t.Context(), func() (bool, error) { return true, failure }); !errors.Is(err, failure) {
		t.Error(err)
	}
}
