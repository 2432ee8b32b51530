// Package sqldb opens a SQL database by URL and migrates its schema. The same SQL is used
// for SQLite and PostgreSQL: $1 parameters, ON CONFLICT and RETURNING; the types text,
// bigint, boolean and bytea; and times in microseconds since the epoch (see Micros). Each
// service owns its tables and embeds its migrations.
package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite" // with the SQLite driver
	sqlite3 "modernc.org/sqlite/lib"

	"slipway.dev/services/internal/fault"
)

// A DB is an open database. It is safe for concurrent use.
type DB struct {
	*sql.DB
	dialect database.Dialect
	// path is the file of a SQLite database.
	path string
	// statements are the prepared statements: *sql.Stmt by query.
	statements sync.Map
}

// Open connects to `sqlite:PATH` or `postgres://…` and pings the database. The caller must
// close it.
func Open(ctx context.Context, rawURL string) (*DB, error) {
	db, err := open(rawURL)
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the database: %w", err), db.Close())
	}
	return db, nil
}

func open(rawURL string) (*DB, error) {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	switch scheme {
	case "sqlite":
		return openSQLite(rest)
	case "postgres", "postgresql":
		config, err := pgx.ParseConfig(rawURL)
		if err != nil {
			// The driver's error may quote the URL with its password.
			return nil, errors.New("database_url is not a valid postgres:// URL")
		}
		db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(forceCustomPlans))
		db.SetMaxOpenConns(32)
		db.SetMaxIdleConns(32)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return &DB{DB: db, dialect: database.DialectPostgres}, nil
	}
	return nil, fmt.Errorf("database_url starts with %q; it must be sqlite:PATH or postgres://…", scheme)
}

// forceCustomPlans makes a connection plan each statement for its parameters. A cached plan
// from when a table was small would scan the whole table after it has grown. The setting is
// not a parameter of the connection string, because connection poolers reject those.
func forceCustomPlans(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "SET plan_cache_mode = force_custom_plan")
	return err
}

// openSQLite opens a file in WAL mode, in which readers run concurrently with the one
// writer. With synchronous=NORMAL nothing is lost when the process is killed. A power
// failure may lose the latest transactions but does not corrupt the database.
func openSQLite(path string) (*DB, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)", "cache_size(-4000)",
	}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return &DB{DB: db, dialect: database.DialectSQLite3, path: path}, nil
}

// IsSQLite reports whether the database is a SQLite file.
func (db *DB) IsSQLite() bool { return db.dialect == database.DialectSQLite3 }

// Migrate migrates the tables of one service to the newest version. The applied versions
// are stored in the table `<service>_migrations`. Processes that migrate the same
// PostgreSQL database wait for each other. A SQLite file is used by one process only.
func (db *DB) Migrate(ctx context.Context, service string, migrations fs.FS) error {
	p, err := db.provider(service, migrations)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the tables of %s: %w", service, err)
	}
	return nil
}

// Check returns an error if the tables of one service are older than the newest version.
// Newer tables are accepted, because the next release may have migrated them already.
func (db *DB) Check(ctx context.Context, service string, migrations fs.FS) error {
	p, err := db.provider(service, migrations)
	if err != nil {
		return err
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", service, err)
	}
	if pending {
		return fmt.Errorf("the tables of %s are outdated; run `slipwayd migrate` with the same database_url first", service)
	}
	return nil
}

func (db *DB) provider(service string, migrations fs.FS) (*goose.Provider, error) {
	store, err := database.NewStore(db.dialect, service+"_migrations")
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithStore(store), goose.WithDisableGlobalRegistry(true)}
	if !db.IsSQLite() {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // retries every second for 5 minutes
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	steps, err := steps(migrations)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations of %s: %w", service, err)
	}
	p, err := goose.NewProvider("", db.DB, nil, append(options, goose.WithGoMigrations(steps...))...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations of %s: %w", service, err)
	}
	return p, nil
}

// steps returns a migration for each file NUMBER_NAME.sql, whose statements are executed at once
// in one transaction. Goose's own reader of such files clears 4 MiB for each of them, which would
// be most of the time that a process needs to start.
func steps(migrations fs.FS) ([]*goose.Migration, error) {
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil {
		return nil, err
	}
	var out []*goose.Migration
	for _, name := range files {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		run := func(ctx context.Context, tx *sql.Tx) error {
			text, err := fs.ReadFile(migrations, name)
			if err == nil {
				_, err = tx.ExecContext(ctx, string(text))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		out = append(out, goose.NewGoMigration(version, &goose.GoFunc{RunTx: run}, nil))
	}
	return out, nil
}

// Micros returns a time as it is stored: in microseconds since the epoch, and 0 for the
// zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time returns the UTC time that Micros converted, and the zero time for 0.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Fault converts an error of the database. It returns fault.Unavailable if the database is
// unreachable or shutting down, fault.Full if its disk is full, fault.Invalid if a string has
// characters that PostgreSQL cannot store, and otherwise err with a prefix.
func (db *DB) Fault(doing string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == invalidEncoding {
		return fault.Invalid.New("A string in the request contains a character that cannot be stored, such as NUL", fmt.Errorf("%s: %w", doing, err))
	}
	if isFull(err) {
		return fault.Full.New("The disk of the service's database is full, so that nothing was stored; its operator must free space, then try again", fmt.Errorf("%s: %w", doing, err)).
			After(time.Minute)
	}
	if db.IsSQLite() || (errors.As(err, &refused) && !isShutdown(refused.Code)) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fault.Unavailable.New("The database cannot be reached right now; try again", fmt.Errorf("%s: %w", doing, err)).
		After(2 * time.Second)
}

// invalidEncoding is PostgreSQL's error code for a string with NUL or invalid UTF-8.
const invalidEncoding = "22021"

// isFull reports whether an error of the database means that its disk is full. SQLite reports a
// failed write of its WAL index as an input/output error.
func isFull(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code()&0xff == sqlite3.SQLITE_FULL || lite.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
	}
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == diskFull
}

// diskFull is PostgreSQL's error code for a full disk.
const diskFull = "53100"

// isShutdown reports whether a PostgreSQL error code means that the server rejects
// connections: class 57P (operator intervention) or 53 (insufficient resources).
func isShutdown(code string) bool {
	return strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "53")
}
