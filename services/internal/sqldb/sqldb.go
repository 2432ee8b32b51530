// Package sqldb opens the SQL database that a URL names and keeps its schema
// current. One SQL text serves both engines: $1 parameters, ON CONFLICT,
// RETURNING; types text, bigint, boolean, bytea; times as microseconds since the
// epoch (see Micros). It knows nothing of what the tables hold: each room
// embeds its own migrations.
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
	_ "modernc.org/sqlite" // the SQLite driver

	"slipway.dev/services/internal/fault"
)

// DB is an open database, safe for concurrent use.
type DB struct {
	*sql.DB
	dialect database.Dialect
	// statements are those that stay prepared: *sql.Stmt by text.
	statements sync.Map
}

// Open connects to `sqlite:PATH` or `postgres://…` and asks it for a sign of
// life. The caller closes it.
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
			// The driver's text may quote the URL, password and all.
			return nil, errors.New("database_url is not a valid postgres:// URL")
		}
		db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(planAnew))
		db.SetMaxOpenConns(32)
		db.SetMaxIdleConns(32)
		db.SetConnMaxIdleTime(5 * time.Minute)
		return &DB{DB: db, dialect: database.DialectPostgres}, nil
	}
	return nil, fmt.Errorf("database_url starts with %q; it must be sqlite:PATH or postgres://…", scheme)
}

// planAnew has a connection plan each statement with its parameters: a plan that was
// kept from when a table was small would go through all of it when it has grown. It
// is no parameter of the connection, since poolers refuse those.
func planAnew(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "SET plan_cache_mode = force_custom_plan")
	return err
}

// openSQLite lets readers run beside the one writer (WAL). synchronous=NORMAL:
// a killed process loses nothing, a power cut may lose the last transactions
// but never the database.
func openSQLite(path string) (*DB, error) {
	if err := private(path); err != nil {
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
	return &DB{DB: db, dialect: database.DialectSQLite3}, nil
}

// IsSQLite says whether the database is a file of this process.
func (db *DB) IsSQLite() bool { return db.dialect == database.DialectSQLite3 }

// Migrate brings one room's tables to the newest version. The versions applied
// are kept in the table `<room>_migrations`. Processes that migrate a database
// server together wait for each other; a SQLite file belongs to one process.
func (db *DB) Migrate(ctx context.Context, room string, migrations fs.FS) error {
	p, err := db.provider(room, migrations)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrating the tables of %s: %w", room, err)
	}
	return nil
}

// Check fails unless one room's tables are at the newest version or beyond it
// (the next release may have migrated already).
func (db *DB) Check(ctx context.Context, room string, migrations fs.FS) error {
	p, err := db.provider(room, migrations)
	if err != nil {
		return err
	}
	pending, err := p.HasPending(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", room, err)
	}
	if pending {
		return fmt.Errorf("the tables of %s are not current: run `slipwayd migrate` with the same database_url first", room)
	}
	return nil
}

func (db *DB) provider(room string, migrations fs.FS) (*goose.Provider, error) {
	store, err := database.NewStore(db.dialect, room+"_migrations")
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithStore(store), goose.WithDisableGlobalRegistry(true)}
	if !db.IsSQLite() {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // asks every second, for 5 minutes
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	p, err := goose.NewProvider("", db.DB, migrations, options...)
	if err != nil {
		return nil, fmt.Errorf("reading the migrations of %s: %w", room, err)
	}
	return p, nil
}

// Micros is how an instant is stored: microseconds since the epoch, UTC. The
// zero time is 0.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time reads what Micros wrote; 0 is the zero time.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Fault says that the database did not do its work: fault.Unavailable when it
// cannot be reached, a plain error when it refused what it was told.
func (db *DB) Fault(doing string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == noText {
		return fault.Invalid.New("A text of the request holds a character that no database takes, such as NUL", fmt.Errorf("%s: %w", doing, err))
	}
	if db.IsSQLite() || (errors.As(err, &refused) && !isShutdown(refused.Code)) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fault.Unavailable.New("The database cannot be reached right now; try again", fmt.Errorf("%s: %w", doing, err)).
		After(2 * time.Second)
}

// noText is what Postgres answers to a text with a NUL or invalid UTF-8.
const noText = "22021"

// isShutdown knows the codes with which Postgres sends clients away (class 57P,
// operator intervention) or has no place for them (53).
func isShutdown(code string) bool {
	return strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "53")
}
