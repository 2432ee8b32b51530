package store_test

import (
	"errors"
	"testing"
	"time"

	"slipway.dev/services/build/migrations"
	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestBarredCertificate checks that revoking a certificate revokes all keys that were
// registered with it, and that it stays barred after they have expired.
func TestBarredCertificate(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx, now := t.Context(), time.Now().Truncate(time.Microsecond)
		if err := db.Migrate(ctx, "build", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		s := store.New(db)
		for id, certificate := range map[string]string{"1": "sha256:a", "2": "sha256:a", "3": "sha256:b", "4": ""} {
			if ok, err := s.PutWorkerKey(ctx, store.WorkerKey{ID: id, Worker: "w" + id, Certificate: certificate, PublicKey: []byte("key"), Seen: now}); err != nil || !ok {
				t.Fatalf("%s: %v, %v", id, ok, err)
			}
		}
		if _, ok, err := s.RevokeWorker(ctx, "", "", now); err != nil || ok {
			t.Errorf("without a name: %v, %v", ok, err)
		}
		for _, name := range []string{"sha256:a", "w3"} {
			if _, ok, err := s.RevokeWorker(ctx, name, "", now); err != nil || !ok {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
		}
		for id, valid := range map[string]bool{"1": false, "2": false, "3": false, "4": true} {
			if _, err := s.WorkerKey(ctx, id, time.Time{}); valid && err != nil || !valid && !errors.Is(err, fault.NotFound) {
				t.Errorf("the key %s: %v", id, err)
			}
		}
		for _, k := range []string{"1", "2", "3"} {
			if err := s.MarkForgotten(ctx, k); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.RemoveWorkerKeys(ctx, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		for certificate, barred := range map[string]bool{"sha256:a": true, "sha256:b": false, "": false} {
			if got, err := s.IsBarred(ctx, certificate); err != nil || got != barred {
				t.Errorf("the certificate %q is barred: %v, %v", certificate, got, err)
			}
		}
	})
}
