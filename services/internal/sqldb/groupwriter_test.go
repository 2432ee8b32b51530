package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

const insertThing = `INSERT INTO room_things (id, n, ok, raw) VALUES ($1, $2, $3, $4)`

// TestGroupWriter writes more rows than one group. Rows that the database rejects fail
// alone, and rows whose call succeeded are stored.
func TestGroupWriter(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		migrate(t, db)
		const rows = 3 * limits.RowsTogether
		things := db.NewGroupWriter(insertThing)
		if err := things.Exec(t.Context(), "taken", 1, true, nil); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range rows {
			wg.Go(func() {
				id, n := fmt.Sprint(i), any(i)
				switch i % 50 {
				case 7:
					id = "taken"
				case 9:
					n = nil // which violates NOT NULL
				}
				err := things.Exec(t.Context(), id, n, true, []byte{0, 255})
				if bad := i%50 == 7 || i%50 == 9; bad == (err == nil) {
					t.Errorf("row %d: %v", i, err)
				}
				if err == nil && count(t, db, id) != 1 {
					t.Errorf("the call for row %d succeeded but the row is missing", i)
				}
			})
		}
		wg.Wait()
		if n := count(t, db, "taken"); n != 1 {
			t.Errorf("%d rows have the duplicate key, want 1", n)
		}
	})
}

func count(t *testing.T, db *sqldb.DB, id string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM room_things WHERE id = $1`, id).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// TestGroupWriterCancelled cancels callers while they wait and while they are written. The
// other callers are not affected.
func TestGroupWriterCancelled(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		migrate(t, db)
		things := db.NewGroupWriter(insertThing)
		cancelled, leave := context.WithCancel(t.Context())
		defer leave()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				ctx := t.Context()
				if i%2 == 0 {
					ctx = cancelled
				}
				if i == 100 {
					leave()
				}
				err := things.Exec(ctx, fmt.Sprint(i), i, true, nil)
				if i%2 == 1 && err != nil || err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("row %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		for i := 1; i < 200; i += 2 {
			if count(t, db, fmt.Sprint(i)) != 1 {
				t.Errorf("row %d of a caller that was not cancelled is missing", i)
			}
		}
		if err := things.Exec(cancelled, "late", 1, true, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller: %v", err)
		}
	})
}

// TestGroupWriterOnKilledServer kills PostgreSQL during writes. Each call returns, rows
// whose call succeeded are stored, and writing works again after a restart.
func TestGroupWriterOnKilledServer(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a PostgreSQL: set SLIPWAY_TEST_REAL")
	}
	server := testkit.StartPostgres(t)
	db, err := sqldb.Open(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	migrate(t, db)
	things := db.NewGroupWriter(insertThing)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var written []string
	begun, failed := make(chan struct{}, 16*1000), 0
	for w := range 16 {
		wg.Go(func() {
			for i := range 1000 {
				id := fmt.Sprintf("%d.%d", w, i)
				err := things.Exec(t.Context(), id, i, true, nil)
				mu.Lock()
				if err == nil {
					written = append(written, id)
				} else {
					failed++
				}
				mu.Unlock()
				if err != nil {
					return
				}
				begun <- struct{}{}
			}
		})
	}
	for range 200 {
		<-begun
	}
	server.Kill()
	wg.Wait()
	if failed == 0 {
		t.Error("no call failed")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a row after the restart", func() error { return things.Exec(t.Context(), "after", 1, true, nil) })
	for _, id := range written {
		if count(t, db, id) != 1 {
			t.Fatalf("the call for row %s succeeded but the row is missing", id)
		}
	}
}

func BenchmarkInsert(b *testing.B) {
	db := testkit.SQLite(b)
	if testkit.Real() {
		db = testkit.Postgres(b)
	}
	migrate(b, db)
	things := db.NewGroupWriter(insertThing)
	raw, id := make([]byte, 500), atomic.Int64{}
	for name, exec := range map[string]func(ctx context.Context, args ...any) error{
		"alone": func(ctx context.Context, args ...any) error {
			_, err := db.ExecContext(ctx, insertThing, args...)
			return err
		},
		"grouped": things.Exec,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := exec(b.Context(), fmt.Sprint(id.Add(1)), 1, true, raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
