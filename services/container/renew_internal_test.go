package container

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// runs is a platform that knows which runs are active.
type runs struct {
	platformv1.AccessServiceClient
	live  map[string]bool
	asked int
	err   error
}

func (r *runs) GetRunState(_ context.Context, req *platformv1.GetRunStateRequest, _ ...grpc.CallOption) (*platformv1.GetRunStateResponse, error) {
	r.asked++
	return &platformv1.GetRunStateResponse{Live: r.live[req.GetWorkflowId()] && req.GetIdentity().GetUserId() == 7}, r.err
}

// TestNamesExpireWithRun checks that the name of a run is renewed while the run is
// active, and expires normally afterwards.
func TestNamesExpireWithRun(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		if err := db.Migrate(ctx, "container", Migrations()); err != nil {
			t.Fatal(err)
		}
		const life, layer = 36 * time.Hour, "sha256:layer"
		start := time.Now().UTC().Truncate(time.Microsecond)
		now, platform, client := start, &runs{live: map[string]bool{"long": true}}, testkit.Redis(t)
		s := &Service{
			deps:  Deps{DB: db, Bus: &brokenBus{}, Log: testkit.Log(t), Now: func() time.Time { return now }, Platform: platform, Settings: Settings{TokenTTL: life}},
			store: store.New(db), tokens: tokens.NewCache(client, testkit.Log(t), 0),
		}
		name := func(run string, user int64) string {
			t.Helper()
			plan := &containerv1.Plan{Token: tokens.New(), Expiration: s.expiration(), Config: &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{GzipDigest: layer}}}}
			if user != 0 {
				plan.Identity = &platformv1.Identity{Endpoint: "https://p", UserId: user}
			}
			if err := s.persist(ctx, &containerv1.ContainerRequest{WorkflowId: run}, plan); err != nil {
				t.Fatal(err)
			}
			return plan.GetToken()
		}
		if err := s.store.PutLayer(ctx, layer, []byte("x"), start.Add(life)); err != nil {
			t.Fatal(err)
		}
		first, second, ended, revoked := name("long", 7), name("long", 7), name("short", 7), name("long", 7)
		others := []string{ended, name("", 7), name("long", 0), name("long", 8)}
		if err := s.revoke(ctx, revoked); err != nil {
			t.Fatal(err)
		}
		works := func(token string, until time.Time) {
			t.Helper()
			for _, fresh := range []bool{false, true} {
				resp, err := s.ResolveToken(ctx, &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
				if err != nil || !resp.GetPlan().GetExpiration().AsTime().Equal(until) {
					t.Errorf("fresh %v: it works until %v, want %v: %v", fresh, resp.GetPlan().GetExpiration().AsTime(), until, err)
				}
			}
		}

		now = start.Add(life/2 - time.Minute)
		s.renew(ctx)
		works(first, start.Add(life))
		if platform.asked > 0 {
			t.Error("the platform was called in the first half of a name's life")
		}
		now = start.Add(life/2 + time.Minute)
		platform.err = errors.New("away")
		s.renew(ctx)
		works(first, start.Add(life))
		platform.err, platform.asked = nil, 0
		s.renew(ctx)
		for _, token := range []string{first, second} {
			works(token, now.Add(life))
		}
		for _, token := range others {
			works(token, start.Add(life))
		}
		if platform.asked != 3 { // the runs long and short of one user, and long of another
			t.Errorf("the platform was called %d times", platform.asked)
		}
		if _, err := s.live(ctx, revoked); !errors.Is(err, fault.NotFound) {
			t.Errorf("a revoked name: %v", err)
		}
		if there, err := s.store.ExtendLayer(ctx, layer, now.Add(life)); err != nil || !there {
			t.Errorf("its layer: %v, %v", there, err)
		}
		if err := s.store.DeleteLayers(ctx, now.Add(life)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Layer(ctx, layer); err != nil {
			t.Errorf("its layer was deleted: %v", err)
		}

		// A long time later the run ends.
		for range 10 {
			now = now.Add(life/2 + time.Minute)
			s.renew(ctx)
		}
		works(first, now.Add(life))
		platform.live["long"] = false
		end := now.Add(life)
		for now.Before(end) {
			works(first, end)
			now = now.Add(life / 4)
			s.renew(ctx)
		}
		if _, err := s.live(ctx, first); !errors.Is(err, fault.NotFound) {
			t.Errorf("after the run's end and a life more: %v", err)
		}
		platform.live["long"] = true
		s.renew(ctx)
		if _, err := s.live(ctx, first); !errors.Is(err, fault.NotFound) {
			t.Errorf("it rose again: %v", err)
		}
	})
}

// TestRenewingUsesTheImage checks that a renewal marks a built image as used, so that the
// image store does not delete it before its name expires, and that names of ended runs do
// not.
func TestRenewingUsesTheImage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := newKept(t, testkit.SQLite(t))
	images := testkit.NewRegistry(t, testkit.Basic)
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	now, platform := time.Now().UTC().Truncate(time.Microsecond), &runs{live: map[string]bool{"run": true}}
	s.deps.Now, s.deps.Platform = func() time.Time { return now }, platform
	s.deps.Builds = Builds{Registry: images.Host, Repository: "builds"}
	login := upstream.Login{Username: testkit.User, Password: testkit.Password}
	s.deps.Keychain = caller.NewKeychain(nil, nil).WithBuildRepository(caller.BuildRepository{Host: images.Host, Repository: "builds", Login: login})
	s.deps.Upstream = upstream.New(upstream.Options{Egress: egress, Plain: []string{images.Host}, Metrics: prometheus.NewRegistry()})
	images.Push(t, "builds:made", testkit.Image(t, "amd64", true))
	plan := &containerv1.Plan{
		Token: tokens.New(), Expiration: s.expiration(), Identity: &platformv1.Identity{Endpoint: "https://p", UserId: 7}, BuildId: "beef_1",
		Source: &containerv1.Source{Registry: images.Host, Repository: "builds", Reference: "made"},
	}
	if err := s.persist(ctx, &containerv1.ContainerRequest{WorkflowId: "run"}, plan); err != nil {
		t.Fatal(err)
	}
	looks := func() (n int) {
		now = now.Add(s.deps.TokenTTL/2 + time.Minute)
		images.Requests()
		s.renew(ctx)
		for _, r := range images.Requests() {
			if strings.HasSuffix(r, "/v2/builds/manifests/made") {
				n++
			}
		}
		return n
	}
	for range 3 {
		if looks() == 0 {
			t.Error("a name was renewed without a look at its image")
		}
		if rec, err := s.live(ctx, plan.GetToken()); err != nil || !rec.Expires.Equal(now.Add(s.deps.TokenTTL)) {
			t.Errorf("the name works until %v: %v", rec.Expires, err)
		}
	}
	platform.live["run"] = false
	if looks() != 0 {
		t.Error("the image is kept after its run has ended")
	}
}
