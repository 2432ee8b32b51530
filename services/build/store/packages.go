package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A PackageKey identifies an artifact of a channel.
type PackageKey struct {
	// Channel is the channel's URL.
	Channel string
	// Subdir is the platform's folder, and FileName the artifact's name there.
	Subdir, FileName string
	// SHA256 is the artifact's digest in hex.
	SHA256 string
}

// An IndexedPackage is a row of build_packages with its files.
type IndexedPackage struct {
	PackageKey
	Name  string
	About *buildv1.PackageSummary
	// Files are paths below the prefix.
	Files []string
	// Worker is the worker that reported the content.
	Worker string
}

// usePrecision is how exactly the index records the last use of a package.
const usePrecision = 24 * time.Hour

// queryValues is the number of values in one query; both engines accept more.
const queryValues = 900

// Unindexed returns the packages that are not in the index, in the order of keys. It updates
// the last use of the others.
func (s Store) Unindexed(ctx context.Context, keys []PackageKey, now time.Time) (out []PackageKey, err error) {
	known := map[PackageKey]bool{}
	var unused []any
	for some := range slices.Chunk(keys, queryValues) {
		ids, err := s.lookUp(ctx, some, known, now)
		if err != nil {
			return nil, err
		}
		unused = append(unused, ids...)
	}
	for some := range slices.Chunk(unused, queryValues) {
		// Not prepared: the text depends on the number of packages.
		if _, err := s.db.ExecContext(ctx, `UPDATE build_packages SET used_at = $1 WHERE id IN (`+parameters(2, len(some))+`)`, append([]any{sqldb.Micros(now)}, some...)...); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k PackageKey) bool { return known[k] }), nil
}

// lookUp adds the packages that are in the index to known. It returns the ids of those whose
// last use has to be updated.
func (s Store) lookUp(ctx context.Context, keys []PackageKey, known map[PackageKey]bool, now time.Time) (unused []any, err error) {
	var digests []any
	for _, k := range keys {
		digests = append(digests, k.SHA256)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT id, channel, subdir, file_name, sha256, used_at FROM build_packages WHERE sha256 IN (`+parameters(1, len(digests))+`)`, digests...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var k PackageKey
		var id int64
		var used time.Time
		if err := rows.Scan(&id, &k.Channel, &k.Subdir, &k.FileName, &k.SHA256, sqldb.ScanTime(&used)); err != nil {
			return nil, err
		}
		known[k] = true
		if now.Sub(used) >= usePrecision && slices.Contains(keys, k) {
			unused = append(unused, id)
		}
	}
	return unused, rows.Err()
}

// parameters returns n placeholders of a query, separated by commas, from $first.
func parameters(first, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(out, ", ")
}

// PutPackage adds a package to the index. It replaces another artifact of the same file
// name. If several calls add the same package at the same time, only one of them has an
// effect.
func (s Store) PutPackage(ctx context.Context, p IndexedPackage, now time.Time) error {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := int64(binary.BigEndian.Uint64(random[:]) >> 1)
	files := slices.Clone(p.Files)
	slices.Sort(files)
	files = slices.Compact(files)
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := removeIndexed(ctx, tx, `channel = $1 AND subdir = $2 AND file_name = $3`, p.Channel, p.Subdir, p.FileName); err != nil {
			return err
		}
		n, err := affected(tx.ExecContext(ctx, `
			INSERT INTO build_packages (id, channel, subdir, file_name, sha256, name, summary, home, license, files, worker, used_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING`,
			id, p.Channel, p.Subdir, p.FileName, p.SHA256, p.Name, p.About.GetSummary(), p.About.GetHome(), p.About.GetLicense(), len(files), p.Worker, sqldb.Micros(now)))
		if err != nil || n == 0 {
			return err
		}
		for some := range slices.Chunk(files, queryValues/3) {
			var rows []string
			var values []any
			for _, name := range some {
				rows = append(rows, "("+parameters(len(values)+1, 3)+")")
				values = append(values, path.Base(name), folderOf(name), id)
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO build_package_files (name, folder, package) VALUES `+strings.Join(rows, ", "), values...); err != nil { //nolint:gosec // rows are placeholders
				return err
			}
		}
		return nil
	})
}

// folderOf returns the folder of a file, or "" for none.
func folderOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, path.Base(name)), "/")
}

// removeIndexed removes packages that match a condition on build_packages from the index.
func removeIndexed(ctx context.Context, tx *sql.Tx, where string, args ...any) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM build_package_files WHERE package IN (SELECT id FROM build_packages WHERE `+where+`)`, args...) //nolint:gosec // where is a constant
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM build_packages WHERE `+where, args...) //nolint:gosec // where is a constant
	}
	return err
}

// TrimPackages removes the least recently used packages, until the index has at most the
// given numbers of packages and of files.
func (s Store) TrimPackages(ctx context.Context, packages, files int) error {
	var havePackages, haveFiles int
	err := s.db.QueryRowContext(ctx, `SELECT COUNT(*), COALESCE(SUM(files), 0) FROM build_packages`).Scan(&havePackages, &haveFiles)
	for err == nil && (havePackages > packages || haveFiles > files) {
		var old []any
		if old, err = s.oldestPackages(ctx, &havePackages, &haveFiles, packages, files); err != nil || len(old) == 0 {
			return err
		}
		err = s.db.Tx(ctx, func(tx *sql.Tx) error {
			return removeIndexed(ctx, tx, `id IN (`+parameters(1, len(old))+`)`, old...)
		})
	}
	return err
}

// oldestPackages returns the next packages to remove, and subtracts them from the counts.
func (s Store) oldestPackages(ctx context.Context, havePackages, haveFiles *int, packages, files int) (ids []any, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, files FROM build_packages ORDER BY used_at, id LIMIT $1`, queryValues)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() && (*havePackages > packages || *haveFiles > files) {
		var id int64
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, err
		}
		ids = append(ids, id)
		*havePackages, *haveFiles = *havePackages-1, *haveFiles-n
	}
	return ids, rows.Err()
}

// FindFile returns up to limits.IndexedHits packages of the channels that contain a file, the
// most recently used first. A name without a folder matches in every folder.
func (s Store) FindFile(ctx context.Context, channels []string, name string) ([]*buildv1.IndexedFile, error) {
	where, args := `f.name = $1`, []any{path.Base(name), limits.IndexedHits}
	if folder := folderOf(name); folder != "" {
		where, args = where+` AND f.folder = $3`, append(args, folder)
	}
	from := len(args) + 1
	for _, c := range channels {
		args = append(args, c)
	}
	return sqldb.Listing[*buildv1.IndexedFile]{
		Read: `SELECT p.channel, p.subdir, p.name, p.file_name, p.sha256, f.folder, f.name
			FROM build_package_files f JOIN build_packages p ON p.id = f.package
			WHERE ` + where + ` AND p.channel IN (` + parameters(from, len(channels)) + `)
			ORDER BY p.used_at DESC, p.id, f.folder LIMIT $2`,
		Scan: func(rows *sql.Rows) (*buildv1.IndexedFile, error) {
			var folder, base string
			out := &buildv1.IndexedFile{}
			err := rows.Scan(&out.Channel, &out.Subdir, &out.Name, &out.FileName, &out.Sha256, &folder, &base)
			out.Path = path.Join(folder, base)
			return out, err
		},
	}.All(ctx, s.db, args...)
}

// Summary returns the summary, home page and licence of a package by its name in a channel,
// from the most recently used artifact that has a summary. All fields are "" for a package
// without one.
func (s Store) Summary(ctx context.Context, channel, name string) (*buildv1.PackageSummary, error) {
	out := &buildv1.PackageSummary{}
	err := s.db.PreparedRow(ctx, `SELECT summary, home, license FROM build_packages WHERE channel = $1 AND name = $2 AND summary <> ''
		ORDER BY used_at DESC LIMIT 1`, channel, name).Scan(&out.Summary, &out.Home, &out.License)
	if errors.Is(err, sql.ErrNoRows) {
		return out, nil
	}
	return out, err
}
