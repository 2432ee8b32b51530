package vulns

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
)

// format is the version of the file format, of how records are converted, and of how packages are compared with them:
// a change that gives other findings for equal archives needs another one.
const format = "1"

// schema is the tables of a database. names are in the form of ecosystem.normal.
const schema = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE records (record INTEGER PRIMARY KEY, doc BLOB NOT NULL);
CREATE TABLE affected (record INTEGER NOT NULL, ecosystem TEXT NOT NULL, name TEXT NOT NULL, doc BLOB NOT NULL);
CREATE INDEX affected_name ON affected (name, ecosystem);`

// An Archive is a zip file with the OSV records of an ecosystem.
type Archive struct {
	// Ecosystem is one of Ecosystems.
	Ecosystem string
	Path      string
}

// A Summary describes what an import has read.
type Summary struct {
	// Records is the number of valid records about packages, and Skipped that of records that are invalid or too
	// large. Problem is the first reason.
	Records, Skipped int
	Problem          string
}

// A DamagedError is returned for an archive that cannot be used.
type DamagedError struct {
	Archive Archive
	Reason  string
	Cause   error
}

// Error implements error.
func (e *DamagedError) Error() string {
	text := "the archive of " + e.Archive.Ecosystem + " " + e.Reason
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Cause }

// Import writes a database with the records of archives to path. It returns a *DamagedError if an archive is not
// valid. The file appears as a whole; other errors leave nothing behind.
func Import(ctx context.Context, path string, archives []Archive) (_ Summary, err error) {
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return Summary{}, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	w, err := create(ctx, part)
	if err != nil {
		return Summary{}, fmt.Errorf("creating a database of vulnerabilities: %w", err)
	}
	if err = errors.Join(w.all(ctx, archives), w.close()); err != nil {
		return Summary{}, err
	}
	if err = flush(part); err == nil {
		err = os.Rename(part, path)
	}
	return w.summary, err
}

// flush writes a file to the disk.
func flush(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// A writer writes a database in one transaction, without a journal: a file that is not complete is deleted.
type writer struct {
	db       *sql.DB
	tx       *sql.Tx
	record   *sql.Stmt
	affected *sql.Stmt
	next     int64
	newest   time.Time
	sums     []string
	// releases counts the packages of records by ecosystem and release.
	releases map[string]int
	summary  Summary
}

func create(ctx context.Context, path string) (*writer, error) {
	db, err := sql.Open("sqlite", location(path)+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)&_pragma=locking_mode(EXCLUSIVE)&_pragma=cache_size(-65536)&_pragma=temp_store(2)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	w := &writer{db: db, releases: map[string]int{}}
	if _, err = db.ExecContext(ctx, schema); err == nil {
		w.tx, err = db.BeginTx(ctx, nil)
	}
	if err == nil {
		w.record, err = w.tx.PrepareContext(ctx, "INSERT INTO records (record, doc) VALUES ($1, $2)")
	}
	if err == nil {
		w.affected, err = w.tx.PrepareContext(ctx, "INSERT INTO affected (record, ecosystem, name, doc) VALUES ($1, $2, $3, $4)")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return w, nil
}

// close closes the database. Without a commit, nothing is kept.
func (w *writer) close() error {
	err := w.tx.Rollback() // otherwise the connection and the file stay open
	if errors.Is(err, sql.ErrTxDone) {
		err = nil
	}
	return errors.Join(err, w.db.Close())
}

// all imports archives, and commits.
func (w *writer) all(ctx context.Context, archives []Archive) error {
	archives = slices.Clone(archives)
	slices.SortFunc(archives, func(a, b Archive) int { return strings.Compare(a.Ecosystem, b.Ecosystem) })
	for _, a := range archives {
		if err := w.archive(ctx, a); err != nil {
			return err
		}
	}
	// The table decides about findings, too.
	version := sha256.Sum256([]byte("slipway vulns " + format + "\n" + condaTable + "\n" + strings.Join(w.sums, "\n")))
	releases, err := json.Marshal(w.releases)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"format": format, "version": hex.EncodeToString(version[:]), "time": w.newest.UTC().Format(time.RFC3339), "records": fmt.Sprint(w.summary.Records), "releases": string(releases),
	} {
		if _, err := w.tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ($1, $2)", name, value); err != nil {
			return err
		}
	}
	return w.tx.Commit()
}

// verify reads an archive without storing its records. It returns a *DamagedError if the archive is not valid.
func verify(ctx context.Context, a Archive) error { return (&writer{}).archive(ctx, a) }

// archive imports an archive.
func (w *writer) archive(ctx context.Context, a Archive) error {
	of, ok := ecosystemOf(a.Ecosystem)
	if !ok {
		return fmt.Errorf("unknown ecosystem %q", a.Ecosystem)
	}
	f, err := os.Open(a.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	size, sum, err := sumOf(f)
	if err != nil {
		return err
	}
	if size > limits.ScanArchive {
		return &DamagedError{a, fmt.Sprintf("has more than %d bytes", int64(limits.ScanArchive)), nil}
	}
	w.sums = append(w.sums, a.Ecosystem+" "+sum)
	directory := &boundedReaderAt{from: f, left: limits.ScanDirectory}
	z, err := zip.NewReader(directory, size)
	if err != nil {
		return &DamagedError{a, "is not a valid zip file", err}
	}
	directory.left = 2 * limits.ScanArchive // for the records, and their headers
	return w.entries(ctx, a, of, z)
}

func (w *writer) entries(ctx context.Context, a Archive, of ecosystem, z *zip.Reader) error {
	if len(z.File) > limits.ScanRecords {
		return &DamagedError{a, fmt.Sprintf("has more than %d records", limits.ScanRecords), nil}
	}
	b := batch{w: w, archive: a, of: of, left: limits.ScanUnpacked}
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !strings.HasSuffix(f.Name, ".json") || f.Mode().IsDir() {
			continue
		}
		if err := b.entry(ctx, f); err != nil {
			return err
		}
	}
	if b.skipped*100 > (b.skipped+b.valid)*limits.ScanBad {
		return &DamagedError{a, fmt.Sprintf("has %d invalid records of %d", b.skipped, b.skipped+b.valid), errors.New(b.problem)}
	}
	if b.valid == 0 {
		return &DamagedError{a, "has no records", nil}
	}
	w.summary.Records += b.stored
	w.summary.Skipped += b.skipped
	w.summary.Problem = cmp.Or(w.summary.Problem, b.problem)
	return nil
}

// A batch is the import of an archive.
type batch struct {
	w       *writer
	archive Archive
	of      ecosystem
	// left is how many bytes the remaining records may have.
	left int64
	buf  bytes.Buffer
	// valid counts records, also those that are not stored; skipped counts invalid ones.
	valid, stored, skipped int
	problem                string
}

// entry imports a file of the archive.
func (b *batch) entry(ctx context.Context, f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return &DamagedError{b.archive, "cannot be read", err}
	}
	defer func() { _ = r.Close() }() // read only
	b.buf.Reset()
	n, err := b.buf.ReadFrom(io.LimitReader(r, limits.ScanRecord+1))
	if err != nil {
		return &DamagedError{b.archive, "cannot be read", err}
	}
	if b.left -= n; b.left < 0 {
		return &DamagedError{b.archive, fmt.Sprintf("has more than %d bytes of records", int64(limits.ScanUnpacked)), nil}
	}
	if n > limits.ScanRecord {
		b.skip(f.Name, fmt.Errorf("it has more than %d bytes", limits.ScanRecord))
		return nil
	}
	rec, list, modified, err := parseRecord(b.buf.Bytes(), b.of)
	switch {
	case errors.Is(err, errWithdrawn):
		b.valid++
	case err != nil:
		b.skip(f.Name, err)
		return nil
	default:
		b.valid++
		if err := b.w.store(ctx, rec, list); err != nil {
			return err
		}
		b.stored += min(len(list), 1)
	}
	if modified.After(b.w.newest) {
		b.w.newest = modified
	}
	return nil
}

func (b *batch) skip(name string, err error) {
	b.skipped++
	if b.problem == "" {
		b.problem = fmt.Sprintf("%.200q of %s: %v", name, b.archive.Ecosystem, err)
	}
	if buf := b.buf.Cap(); buf > 1<<20 { // not to be held for all the other records
		b.buf = bytes.Buffer{}
	}
}

// store stores a record with its packages, if it has any.
func (w *writer) store(ctx context.Context, r record, list []affected) error {
	if len(list) == 0 || w.db == nil {
		return nil
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.next++
	if _, err := w.record.ExecContext(ctx, w.next, doc); err != nil {
		return fmt.Errorf("storing a record: %w", err)
	}
	for _, a := range list {
		w.releases[a.ecosystem]++
		doc, err := json.Marshal(a.vulnerable)
		if err != nil {
			return err
		}
		if _, err := w.affected.ExecContext(ctx, w.next, a.ecosystem, a.name, doc); err != nil {
			return fmt.Errorf("storing a record: %w", err)
		}
	}
	return nil
}

// sumOf returns the size of a file and its SHA-256 in hex.
func sumOf(f io.Reader) (size int64, sum string, err error) {
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// A boundedReaderAt reads at most left bytes.
type boundedReaderAt struct {
	from io.ReaderAt
	left int64
}

// ReadAt implements io.ReaderAt.
func (b *boundedReaderAt) ReadAt(p []byte, at int64) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errors.New("its directory is too large")
	}
	return b.from.ReadAt(p, at)
}
