package sqldb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A Rewrite changes the value of a column while a row is copied. Text and bytea columns are
// passed as string and []byte.
type Rewrite func(table, column string, value any) (any, error)

// A Copied is the result of copying one table.
type Copied struct {
	Table string
	Rows  int64
}

// copyBytes and copyParameters bound one INSERT: its values, and its parameters, of which
// PostgreSQL allows 65,535. SQLite compares the name of each parameter with all before it.
const (
	copyBytes      = 4 << 20
	copyParameters = 1_000
)

// Copy copies the rows of every table of the services from a SQLite database in one
// transaction, and compares the number of rows and a hash of every table before it commits.
// Both databases must be at the current version of the schema (see Check). Copy returns an
// error, and changes nothing, if a table of to has rows.
func Copy(ctx context.Context, from, to *DB, services []string, rewrite Rewrite) ([]Copied, error) {
	tables, err := from.tables(ctx, services)
	if err != nil {
		return nil, err
	}
	tx, err := to.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	for _, t := range tables {
		if err := t.isEmpty(ctx, tx); err != nil {
			return nil, err
		}
	}
	var out []Copied
	for _, t := range tables {
		rows, err := t.copy(ctx, from.DB, tx, rewrite)
		if err != nil {
			return nil, fmt.Errorf("copying the table %s: %w", t.name, err)
		}
		out = append(out, Copied{t.name, rows})
	}
	return out, tx.Commit()
}

// HasRows reports whether a table exists and has rows.
func (db *DB) HasRows(ctx context.Context, table string) (bool, error) {
	exists := `SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = $1`
	if db.IsSQLite() {
		exists = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1`
	}
	var n int
	if err := db.QueryRowContext(ctx, exists, table).Scan(&n); err != nil || n == 0 {
		return false, err
	}
	err := db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM `+table+` LIMIT 1) AS found`).Scan(&n)
	return n > 0, err
}

// A copiedTable is a table with its columns, as the migrations create it.
type copiedTable struct {
	name    string
	columns []copiedColumn
}

type copiedColumn struct {
	name, kind string // kind is text, bigint, boolean or bytea
	notNull    bool
}

// tables returns the tables of the services in the order of their creation, so that each table
// comes after the tables that its foreign keys refer to.
func (db *DB) tables(ctx context.Context, services []string) ([]copiedTable, error) {
	if !db.IsSQLite() {
		return nil, errors.New("only a SQLite database can be copied")
	}
	var out []copiedTable
	for _, service := range services {
		tables, err := db.tablesOf(ctx, service)
		if err != nil {
			return nil, err
		}
		out = append(out, tables...)
	}
	return out, nil
}

func (db *DB) tablesOf(ctx context.Context, service string) (out []copiedTable, err error) {
	rows, err := db.QueryContext(ctx, `
		SELECT m.name, c.name, lower(c.type), c."notnull" <> 0 OR c.pk > 0
		FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name LIKE $1 ESCAPE '\' AND m.name <> $2
		ORDER BY m.rowid, c.cid`, service+`\_%`, service+"_migrations")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		var c copiedColumn
		if err := rows.Scan(&table, &c.name, &c.kind, &c.notNull); err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].name != table {
			out = append(out, copiedTable{name: table})
		}
		t := &out[len(out)-1]
		t.columns = append(t.columns, c)
	}
	return out, rows.Err()
}

func (t copiedTable) isEmpty(ctx context.Context, to *sql.Tx) error {
	var n int
	if err := to.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM `+t.name+` LIMIT 1) AS found`).Scan(&n); err != nil {
		return fmt.Errorf("reading the table %s: %w", t.name, err)
	}
	if n > 0 {
		return fmt.Errorf("the table %s of the target is not empty: copy into an empty database", t.name)
	}
	return nil
}

func (t copiedTable) copy(ctx context.Context, from *sql.DB, to *sql.Tx, rewrite Rewrite) (int64, error) {
	var written tableHash
	b := batch{table: t, to: to}
	err := t.each(ctx, from, func(row []any) error {
		for i, c := range t.columns {
			if rewrite == nil || row[i] == nil {
				continue
			}
			v, err := rewrite(t.name, c.name, row[i])
			if err != nil {
				return err
			}
			row[i] = v
		}
		written.add(row)
		return b.add(ctx, row)
	})
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return 0, err
	}
	var read tableHash
	if err := t.each(ctx, to, func(row []any) error { read.add(row); return nil }); err != nil {
		return 0, err
	}
	if read != written {
		return 0, fmt.Errorf("%d rows were written and %d were read, or they differ", written.rows, read.rows)
	}
	return read.rows, nil
}

// each calls f for every row. Values are nil, string, int64, bool or []byte.
func (t copiedTable) each(ctx context.Context, db interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, f func([]any) error,
) error {
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	rows, err := db.QueryContext(ctx, `SELECT `+strings.Join(names, ", ")+` FROM `+t.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		into := make([]any, len(t.columns))
		for i, c := range t.columns {
			into[i] = c.target()
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]any, len(into))
		for i, c := range t.columns {
			row[i] = c.value(into[i])
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// target returns a destination for Scan.
func (c copiedColumn) target() any {
	switch c.kind {
	case "bigint":
		return new(sql.NullInt64)
	case "boolean":
		return new(sql.NullBool)
	case "bytea":
		return new([]byte)
	}
	return new(sql.NullString)
}

// value returns the value that Scan has stored in a destination from target, or nil for NULL.
func (c copiedColumn) value(into any) any {
	switch v := into.(type) {
	case *sql.NullInt64:
		if v.Valid {
			return v.Int64
		}
	case *sql.NullBool:
		if v.Valid {
			return v.Bool
		}
	case *sql.NullString:
		if v.Valid {
			return v.String
		}
	case *[]byte:
		if *v != nil {
			return *v
		}
		if c.notNull {
			return []byte{} // SQLite's driver reads an empty blob as nil
		}
	}
	return nil
}

// A batch is an INSERT of several rows.
type batch struct {
	table  copiedTable
	to     *sql.Tx
	values []any
	bytes  int
}

func (b *batch) add(ctx context.Context, row []any) error {
	b.values = append(b.values, row...)
	for _, v := range row {
		switch v := v.(type) {
		case string:
			b.bytes += len(v)
		case []byte:
			b.bytes += len(v)
		}
	}
	if b.bytes < copyBytes && len(b.values) < copyParameters {
		return nil
	}
	return b.flush(ctx)
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.values) == 0 {
		return nil
	}
	names := make([]string, len(b.table.columns))
	for i, c := range b.table.columns {
		names[i] = c.name
	}
	var text strings.Builder
	fmt.Fprintf(&text, "INSERT INTO %s (%s) VALUES ", b.table.name, strings.Join(names, ", "))
	for i := range b.values {
		switch {
		case i%len(names) > 0:
			text.WriteString(", ")
		case i > 0:
			text.WriteString("), (")
		default:
			text.WriteString("(")
		}
		fmt.Fprintf(&text, "$%d", i+1)
	}
	text.WriteString(")")
	_, err := b.to.ExecContext(ctx, text.String(), b.values...)
	b.values, b.bytes = nil, 0
	return err
}

// A tableHash is the number of rows and a hash that does not depend on their order.
type tableHash struct {
	rows int64
	sum  [sha256.Size]byte
}

func (h *tableHash) add(row []any) {
	digest := sha256.New()
	field := func(kind byte, content []byte) {
		_, _ = digest.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(len(content))))
		_, _ = digest.Write(content)
	}
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			field('n', nil)
		case string:
			field('s', []byte(v))
		case []byte:
			field('b', v)
		case int64:
			field('i', binary.BigEndian.AppendUint64(nil, uint64(v)))
		case bool:
			content := []byte{0}
			if v {
				content[0] = 1
			}
			field('t', content)
		}
	}
	h.rows++
	// Primary keys make rows unique, so that no two cancel each other out.
	for i, b := range digest.Sum(nil) {
		h.sum[i] ^= b
	}
}
