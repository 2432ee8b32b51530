package container

import (
	"errors"
	"testing"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// brokenBus is a NATS client that fails while broken is set.
type brokenBus struct{ broken bool }

func (b *brokenBus) Publish(string, []byte) error {
	if b.broken {
		return errors.New("not connected")
	}
	return nil
}

func TestRevocationIsRetriedUntilPublished(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", Migrations()); err != nil {
			t.Fatal(err)
		}
		bus, client := &brokenBus{broken: true}, testkit.Redis(t)
		s := &Service{
			deps:  Deps{DB: db, Bus: bus, Log: testkit.Log(t), Now: time.Now, Settings: Settings{TokenTTL: time.Hour}},
			store: store.New(db), tokens: tokens.NewCache(client, testkit.Log(t), 0),
		}
		token := tokens.New()
		rec := store.Record{Created: time.Now(), Expires: time.Now().Add(time.Hour), Plan: &containerv1.Plan{Token: token}, Request: &containerv1.ContainerRequest{}}
		if err := s.store.Insert(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if err := s.revoke(t.Context(), token); err != nil {
			t.Fatalf("SQL has it, so it is revoked: %v", err)
		}
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		s.resendRevocations(t.Context())
		if left, err := s.store.Unsent(t.Context(), time.Now()); err != nil || len(left) != 1 {
			t.Errorf("while NATS is unavailable %d are unsent, %v", len(left), err)
		}
		bus.broken = false
		s.resendRevocations(t.Context())
		if left, err := s.store.Unsent(t.Context(), time.Now()); err != nil || len(left) != 0 {
			t.Errorf("afterwards %d are unsent, %v", len(left), err)
		}
		if _, err := s.tokens.Get(t.Context(), token); !errors.Is(err, tokens.ErrRevoked) {
			t.Errorf("Redis returned %v", err)
		}
	})
}

func TestSweepRemovesUnusedData(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", Migrations()); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		s := &Service{deps: Deps{DB: db, Log: testkit.Log(t), Now: func() time.Time { return now }, Platform: &daysOf{}, Settings: Settings{Retention: time.Hour}}, store: store.New(db)}
		ctx := t.Context()
		old, young := tokens.New(), tokens.New()
		for token, expires := range map[string]time.Time{old: now.Add(-2 * time.Hour), young: now.Add(-time.Minute)} {
			rec := store.Record{Created: now, Expires: expires, Plan: &containerv1.Plan{Token: token}, Request: &containerv1.ContainerRequest{}}
			if err := errors.Join(s.store.Insert(ctx, rec), s.store.AddDigest(ctx, tokens.IDOf(token), "sha256:1", now)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.store.PutLayer(ctx, "needed", []byte("x"), now), s.store.PutLayer(ctx, "expired", []byte("y"), now.Add(-25*time.Hour))); err != nil {
			t.Fatal(err)
		}
		s.sweep(ctx)
		if _, err := s.store.Get(ctx, old); !errors.Is(err, fault.NotFound) {
			t.Errorf("the old request: %v", err)
		}
		if r, err := s.store.Get(ctx, young); err != nil || len(r.Plan.GetDigests()) != 1 {
			t.Errorf("the young request: %v, %v", r.Plan, err)
		}
		if _, err := s.store.Layer(ctx, "expired"); !errors.Is(err, fault.NotFound) {
			t.Errorf("the expired layer: %v", err)
		}
		if there, err := s.store.ExtendLayer(ctx, "needed", now.Add(72*time.Hour)); !there || err != nil {
			t.Errorf("extending: %v, %v", there, err)
		}
		now = now.Add(48 * time.Hour)
		s.sweep(ctx)
		if _, err := s.store.Layer(ctx, "needed"); err != nil {
			t.Errorf("a layer that was requested again was deleted: %v", err)
		}
	})
}
