package sqldb_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// copied returns a schema with every kind of column and a foreign key.
func copied() fstest.MapFS {
	return fstest.MapFS{"00001_copied.sql": {Data: []byte(`
CREATE TABLE copied_owners (id bigint PRIMARY KEY, name text NOT NULL, active boolean NOT NULL);
CREATE TABLE copied_things (id bigint PRIMARY KEY, owner bigint NOT NULL REFERENCES copied_owners (id), content bytea NOT NULL, note bytea, place text);
`)}}
}

func newCopied(t *testing.T, db *sqldb.DB) *sqldb.DB {
	t.Helper()
	if err := db.Migrate(t.Context(), "copied", copied()); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestCopy copies a database with more rows than one INSERT holds, to each engine.
func TestCopy(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, to *sqldb.DB) {
		newCopied(t, to)
		from := newCopied(t, testkit.SQLite(t))
		exec := func(text string, args ...any) {
			t.Helper()
			if _, err := from.ExecContext(t.Context(), text, args...); err != nil {
				t.Fatal(err)
			}
		}
		exec(`INSERT INTO copied_owners VALUES (1, 'éa', true), (2, '', false)`)
		exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
			INSERT INTO copied_things SELECT i, 1 + i % 2, CAST('content ' || i AS blob), NULL, 'old/' || i FROM n`)
		exec(`INSERT INTO copied_things VALUES (0, 1, $1, $2, NULL)`, []byte{}, []byte{0, 1})
		move := func(_, column string, v any) (any, error) {
			if text, ok := v.(string); ok && column == "place" {
				return strings.Replace(text, "old/", "new/", 1), nil
			}
			return v, nil
		}
		got, err := sqldb.Copy(t.Context(), from, to, []string{"copied"}, move)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != (sqldb.Copied{Table: "copied_owners", Rows: 2}) || got[1] != (sqldb.Copied{Table: "copied_things", Rows: 2_501}) {
			t.Errorf("copied %+v", got)
		}
		var place string
		var content, note []byte
		if err := to.QueryRowContext(t.Context(), `SELECT content, place FROM copied_things WHERE id = 2500`).Scan(&content, &place); err != nil || place != "new/2500" || string(content) != "content 2500" {
			t.Errorf("%q %q %v", content, place, err)
		}
		if err := to.QueryRowContext(t.Context(), `SELECT content, note FROM copied_things WHERE id = 0`).Scan(&content, &note); err != nil || len(content) != 0 || string(note) != "\x00\x01" {
			t.Errorf("%q %q %v", content, note, err)
		}
		if _, err := sqldb.Copy(t.Context(), from, to, []string{"copied"}, nil); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("copied into tables with rows: %v", err)
		}
	})
}

// TestCopyFails checks that the target is empty after a copy that failed in the middle.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, to *sqldb.DB) {
		newCopied(t, to)
		from := newCopied(t, testkit.SQLite(t))
		if _, err := from.ExecContext(t.Context(), `INSERT INTO copied_owners VALUES (1, 'a', true), (2, 'b', false)`); err != nil {
			t.Fatal(err)
		}
		if _, err := from.ExecContext(t.Context(), `INSERT INTO copied_things VALUES (1, 1, '', NULL, NULL)`); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := sqldb.Copy(ctx, from, to, []string{"copied"}, func(table, _ string, v any) (any, error) {
			if table == "copied_things" {
				cancel()
			}
			return v, nil
		})
		if err == nil {
			t.Error("no error")
		}
		if has, err := to.HasRows(t.Context(), "copied_owners"); err != nil || has {
			t.Errorf("rows remain: %v, %v", has, err)
		}
		if has, err := to.HasRows(t.Context(), "copied_missing"); err != nil || has {
			t.Errorf("a missing table has rows: %v, %v", has, err)
		}
	})
}
