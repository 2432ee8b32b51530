package store_test

import (
	"testing"
	"time"

	"slipway.dev/services/container/migrations"
	"slipway.dev/services/container/store"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSignatures checks that the first signature of a message remains, until it is deleted.
func TestSignatures(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "container", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		s, now := store.New(db), time.Now()
		want := func(what, key, message, signature string) {
			t.Helper()
			if got, err := s.Signature(t.Context(), key, message); err != nil || string(got) != signature {
				t.Errorf("%s: got %q, %v", what, got, err)
			}
		}
		want("nothing was stored", "k", "m", "")
		for _, signature := range []string{"first", "second"} {
			if got, err := s.StoreSignature(t.Context(), "k", "m", []byte(signature), now); err != nil || string(got) != "first" {
				t.Errorf("storing %s: got %q, %v", signature, got, err)
			}
		}
		want("another key", "other", "m", "")
		if err := s.DeleteSignatures(t.Context(), now.Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		want("newer", "k", "m", "first")
		if err := s.DeleteSignatures(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		want("deleted", "k", "m", "")
	})
}
