package sqldb_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// migrations returns the first n migrations of a service.
func migrations(n int) fs.FS {
	all := []string{
		`CREATE TABLE room_things (id text PRIMARY KEY, n bigint NOT NULL, ok boolean NOT NULL, raw bytea);`,
		`ALTER TABLE room_things ADD COLUMN extra text;`,
	}
	out := fstest.MapFS{}
	for i, text := range all[:n] {
		out[fmt.Sprintf("%05d_x.sql", i+1)] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return out
}

func migrate(t testing.TB, db *sqldb.DB) {
	t.Helper()
	if err := db.Migrate(t.Context(), "service", migrations(2)); err != nil {
		t.Fatal(err)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		err := db.Check(ctx, "service", migrations(1))
		if err == nil || !strings.Contains(err.Error(), "slipwayd migrate") {
			t.Errorf("an empty database: %v, want the command to run", err)
		}
		for n := 1; n <= 2; n++ {
			for range 2 { // a second time changes nothing
				if err := db.Migrate(ctx, "service", migrations(n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Check(ctx, "service", migrations(n)); err != nil {
				t.Errorf("at version %d: %v", n, err)
			}
			if n == 1 && db.Check(ctx, "service", migrations(2)) == nil {
				t.Error("Check accepted version 1 as version 2")
			}
		}
		if err := db.Check(ctx, "service", migrations(1)); err != nil {
			t.Errorf("the previous release must run on the new schema: %v", err)
		}
		if err := db.Check(ctx, "other", migrations(1)); err == nil {
			t.Error("migrating one service migrated another one")
		}
		broken := fstest.MapFS{"00001_x.sql": {Data: []byte("CREATE TABLE;\n")}}
		if err := db.Migrate(ctx, "broken", broken); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("a broken migration: %v", err)
		}
	})
}

func TestReplicasMigrateTogether(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a PostgreSQL: set SLIPWAY_TEST_REAL")
	}
	db := testkit.Postgres(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { errs[i] = db.Migrate(t.Context(), "service", migrations(2)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if err := db.Check(t.Context(), "service", migrations(2)); err != nil {
		t.Error(err)
	}
}

// TestSQL runs the SQL features that services use on both engines.
func TestSQL(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		migrate(t, db)
		ctx := t.Context()
		const insert = `INSERT INTO room_things (id, n, ok, raw) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
		for _, want := range []int64{1, 0} {
			res, err := db.ExecContext(ctx, insert, "a", int64(1)<<60, true, []byte{0, 255})
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := res.RowsAffected(); n != want {
				t.Errorf("%d rows were written, want %d", n, want)
			}
		}
		var n int64
		var ok bool
		var raw []byte
		err := db.QueryRowContext(ctx, `UPDATE room_things SET ok = $1 WHERE id = $2 AND ok = $3 RETURNING n, ok, raw`, false, "a", true).Scan(&n, &ok, &raw)
		if err != nil || n != 1<<60 || ok || string(raw) != "\x00\xff" {
			t.Errorf("got %d, %v, %x, %v", n, ok, raw, err)
		}
	})
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		migrate(t, db)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 20 {
					if err := add(t, db, fmt.Sprintf("%d.%d", i, j)); err != nil {
						t.Errorf("writer %d: %v", i, err)
						return
					}
				}
			})
		}
		wg.Wait()
		var n int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM room_things`).Scan(&n); err != nil || n != 160 {
			t.Errorf("%d rows, %v; want 160", n, err)
		}
	})
}

// add reads and writes in one transaction.
func add(t testing.TB, db *sqldb.DB, id string) error {
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM room_things`).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO room_things (id, n, ok) VALUES ($1, $2, $3)`, id, n, true); err != nil {
		return err
	}
	return tx.Commit()
}

func TestOpen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.db", "with space.db", "50%.db", "what?.db", "a#b.db"} {
		path := filepath.Join(t.TempDir(), name)
		db, err := sqldb.Open(t.Context(), "sqlite:"+path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		migrate(t, db)
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); !strings.Contains(strings.Join(files, "\n"), path) || !db.IsSQLite() {
			t.Errorf("%s: wrote %v", name, files)
		}
		_ = db.Close()
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "mysql://u:geheim@h/d", "/path/alone.db", "sqlite:/no/such/folder/x.db", "postgres://u:geheim@h:x/d",
		"postgres://u:geheim@127.0.0.1:" + testkit.FreePort(t) + "/d",
	} {
		db, err := sqldb.Open(t.Context(), in)
		if err == nil || db != nil {
			t.Errorf("%q was opened", in)
		} else if strings.Contains(err.Error(), "geheim") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestMicros(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.FixedZone("x", 3600))
	if got := sqldb.Time(sqldb.Micros(at)); !got.Equal(at.Truncate(time.Microsecond)) || got.Location() != time.UTC {
		t.Errorf("got %s", got)
	}
	if sqldb.Micros(time.Time{}) != 0 || !sqldb.Time(0).IsZero() {
		t.Error("the zero time is not converted to 0 and back")
	}
	before := time.Unix(-1, 0)
	if got := sqldb.Time(sqldb.Micros(before)); !got.Equal(before) {
		t.Errorf("before the epoch: got %s", got)
	}
}

func TestFaultKeepsQueryErrors(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		_, cause := db.ExecContext(t.Context(), `INSERT INTO no_such_table (a) VALUES (1)`)
		err := db.Fault("writing", cause)
		if _, ok := fault.As(err); ok || !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "writing: ") {
			t.Errorf("got %v", err)
		}
	})
}

// TestFullDisk checks the fault for a SQLite database that cannot grow.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	db := testkit.SQLite(t)
	db.SetMaxOpenConns(1) // the limit of pages belongs to a connection
	for _, query := range []string{`CREATE TABLE rows (value text)`, `PRAGMA max_page_count = 1`} {
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	_, cause := db.ExecContext(t.Context(), `INSERT INTO rows (value) VALUES ($1)`, strings.Repeat("x", 1<<20))
	if err := db.Fault("writing", cause); cause == nil || !errors.Is(err, fault.Full) {
		t.Errorf("got %v", err)
	}
}

func TestKilledPostgresIsUnavailable(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a PostgreSQL: set SLIPWAY_TEST_REAL")
	}
	server := testkit.StartPostgres(t)
	db, err := sqldb.Open(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if db.IsSQLite() {
		t.Error("IsSQLite is true for PostgreSQL")
	}
	server.Kill()
	// The server's processes end one after the other and may still respond for a moment.
	var cause error
	for deadline := time.Now().Add(time.Minute); cause == nil && time.Now().Before(deadline); {
		_, cause = db.ExecContext(t.Context(), `SELECT 1`)
	}
	if err := db.Fault("reading", cause); cause == nil || !errors.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `SELECT 1`); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// TestPostgresPlans verifies that plans are not cached.
func TestPostgresPlans(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a PostgreSQL: set SLIPWAY_TEST_REAL")
	}
	db := testkit.Postgres(t)
	db.SetMaxIdleConns(0) // each query uses a new connection
	for range 2 {
		var mode string
		if err := db.QueryRowContext(t.Context(), `SHOW plan_cache_mode`).Scan(&mode); err != nil || mode != "force_custom_plan" {
			t.Errorf("plan_cache_mode is %q, %v", mode, err)
		}
	}
}
