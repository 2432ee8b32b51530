package vulns

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sbom"
	_ "slipway.dev/services/internal/sqldb" // registers the SQLite driver
)

// A Database is an open database of vulnerabilities. It is immutable and safe for concurrent use. The file may be
// replaced or deleted while it is open.
type Database struct {
	db *sql.DB
	// find selects the records about a package, whose ecosystem is between two names.
	find    *sql.Stmt
	version string
	time    time.Time
	records int
	// releases counts packages of records by ecosystem and release, e.g. "Debian:12".
	releases map[string]int
	// matches is limits.ScanMatches, or less in tests.
	matches int
}

// connections is how many goroutines read a database concurrently.
const connections = 4

// Open opens a file that Import has written. The caller must close the database.
func Open(path string) (*Database, error) {
	// immutable: the file never changes. Without it, SQLite creates files beside it.
	db, err := sql.Open("sqlite", location(path)+"?mode=ro&immutable=1&_pragma=query_only(1)&_pragma=cache_size(-4000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	d := &Database{db: db, matches: limits.ScanMatches}
	if err = errors.Join(d.connect(), d.readMeta()); err == nil {
		d.find, err = db.PrepareContext(context.Background(), `SELECT a.ecosystem, a.doc, r.doc FROM affected a JOIN records r ON r.record = a.record
			WHERE a.name = $1 AND a.ecosystem >= $2 AND a.ecosystem <= $3 ORDER BY a.rowid`)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a database of vulnerabilities: %w", err), db.Close())
	}
	return d, nil
}

// location returns the URL of a SQLite file.
func location(path string) string { return "file:" + (&url.URL{Path: path}).EscapedPath() }

// connect opens all connections, so that none is opened after the file was replaced.
func (d *Database) connect() error {
	var err error
	for range connections {
		c, e := d.db.Conn(context.Background())
		if err = errors.Join(err, e); e == nil {
			defer func() { _ = c.Close() }() // only returned to the pool
			err = errors.Join(err, c.PingContext(context.Background()))
		}
	}
	return err
}

func (d *Database) readMeta() error {
	rows, err := d.db.QueryContext(context.Background(), "SELECT name, value FROM meta")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	meta := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		meta[name] = value
	}
	if err := rows.Err(); err != nil {
		return err
	}
	raw, err := hex.DecodeString(meta["version"])
	if meta["format"] != format || err != nil || len(raw) != 32 {
		return fmt.Errorf("its format is %.20q, not %q", meta["format"], format)
	}
	d.version = meta["version"]
	if d.records, err = strconv.Atoi(meta["records"]); err == nil {
		d.time, err = time.Parse(time.RFC3339, meta["time"])
	}
	if err == nil {
		err = json.Unmarshal([]byte(meta["releases"]), &d.releases)
	}
	return err
}

// Version identifies the data: equal archives give equal versions on each server. It is a SHA-256 in hex.
func (d *Database) Version() string { return d.version }

// Time returns when the newest record was modified.
func (d *Database) Time() time.Time { return d.time }

// Records returns the number of records.
func (d *Database) Records() int { return d.records }

// Uncovered counts the components about which the database has no data: by ecosystem and release, e.g. "Debian:14",
// or by the type of their package URLs, e.g. "conda" for packages that are not in conda.tsv. Find returns nothing for
// them, which does not mean that they have no vulnerabilities. Components without software of their own are not counted.
func (d *Database) Uncovered(components []sbom.Component) map[string]int {
	out := map[string]int{}
	for i := range components {
		list := targets(&components[i])
		if slices.ContainsFunc(list, d.covers) || isMeta(&components[i]) {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(components[i].PURL, "pkg:"), "/")
		if len(list) > 0 && list[0].match == MatchExact {
			name = list[0].query().ecosystem
		}
		if isName(name) {
			out[name]++
		}
	}
	return out
}

// covers reports whether there are records of the ecosystem and release of a target.
func (d *Database) covers(t target) bool {
	q := t.query()
	if !q.allReleases {
		return d.releases[q.ecosystem] > 0
	}
	for name := range d.releases {
		if e, _, _ := strings.Cut(name, ":"); e == q.ecosystem {
			return true
		}
	}
	return false
}

// Close closes the database. No call may be running.
func (d *Database) Close() error { return d.db.Close() }
