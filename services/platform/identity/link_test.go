package identity_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/migrations"
	"slipway.dev/services/platform/vault"
)

// TestLinkedOnce checks that only one of several subjects that sign in concurrently with the
// same address is linked to the user.
func TestLinkedOnce(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), "platform", migrations.FS()); err != nil {
			t.Fatal(err)
		}
		keys, err := vault.Open(filepath.Join(t.TempDir(), "master-key"), true)
		if err != nil {
			t.Fatal(err)
		}
		s := identity.New(identity.Deps{DB: db, Keys: keys, Now: time.Now})
		ada, err := s.CreateUser(t.Context(), identity.Account{Name: "ada", Email: "ada@example.org"})
		if err != nil {
			t.Fatal(err)
		}
		var linked atomic.Int32
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				ok, err := s.LinkLogin(t.Context(), "https://issuer.example", fmt.Sprint("subject-", n), ada.ID)
				if err != nil {
					t.Error(err)
				}
				if ok {
					linked.Add(1)
				}
			})
		}
		all.Wait()
		if linked.Load() != 1 {
			t.Errorf("%d subjects are linked to one account", linked.Load())
		}
	})
}
