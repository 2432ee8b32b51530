package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// An ImagePackage is a package of an image.
type ImagePackage struct {
	Name, Version string
	// Kind is "conda", or "pypi" for a wheel.
	Kind string
}

// lockID identifies a set of packages; "" for none. It sorts them.
func lockID(packages []ImagePackage) string {
	if len(packages) == 0 {
		return ""
	}
	slices.SortFunc(packages, func(a, b ImagePackage) int {
		return strings.Compare(a.Name+"\x00"+a.Version+"\x00"+a.Kind, b.Name+"\x00"+b.Version+"\x00"+b.Kind)
	})
	h := sha256.New()
	for _, p := range packages {
		_, _ = fmt.Fprintf(h, "%q %q %q\n", p.Name, p.Version, p.Kind) // writing to a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Unindexed returns up to limits.LockedBuilds builds of requests whose packages are not indexed, in
// the order of their IDs, which are above after.
func (s Store) Unindexed(ctx context.Context, after string) ([]string, error) {
	return sqldb.Listing[string]{Scan: scannedText, Read: `
		SELECT DISTINCT build_id FROM container_requests WHERE lock_id = '?' AND build_id <> '' AND revoked_at = 0 AND build_id > $1 ORDER BY build_id LIMIT $2`,
	}.All(ctx, s.db, after, limits.LockedBuilds)
}

// unknownLock is the lock_id of requests whose packages are not known.
const unknownLock = "-"

// IndexPackages connects the requests for the result of a build with its packages. isKnown is false
// if the packages are not known.
func (s Store) IndexPackages(ctx context.Context, build string, packages []ImagePackage, isKnown bool, now time.Time) error {
	id := lockID(packages)
	if !isKnown {
		id = unknownLock
	}
	for {
		records, err := sqldb.Listing[Record]{Scan: scannedRow, Read: `
			SELECT ` + columns + ` FROM container_requests WHERE lock_id = '?' AND build_id = $1 AND build_id <> '' AND revoked_at = 0 LIMIT $2`,
		}.All(ctx, s.db, build, limits.RequestsDeleted)
		if err != nil || len(records) == 0 {
			return err
		}
		if err := s.connect(ctx, records, id, packages, now); err != nil {
			return err
		}
	}
}

// connect connects requests with packages, which are inserted unless they exist.
func (s Store) connect(ctx context.Context, records []Record, id string, packages []ImagePackage, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		if len(packages) > 0 {
			if err := insertPackages(ctx, t, id, packages, now); err != nil {
				return err
			}
		}
		for _, r := range records {
			if _, err := t.ExecContext(ctx, `UPDATE container_requests SET lock_id = $2, frozen = $3 WHERE id = $1`, r.Key, id, r.Plan.GetFrozen() || r.Plan.GetKeptId() != ""); err != nil {
				return fmt.Errorf("connecting a request with its packages: %w", err)
			}
		}
		return nil
	})
}

// insertPackages inserts the packages of a lock, unless they exist. Updating used_at locks the row,
// so that DeletePackages cannot delete the packages at the same time.
func insertPackages(ctx context.Context, t *sql.Tx, id string, packages []ImagePackage, now time.Time) error {
	_, err := t.ExecContext(ctx, `
		INSERT INTO container_indexed_locks (id, used_at) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET used_at = excluded.used_at`, id, sqldb.Micros(now))
	if err != nil {
		return fmt.Errorf("indexing packages: %w", err)
	}
	const columns = 4
	for some := range slices.Chunk(packages, 200) {
		var args []any
		for _, p := range some {
			args = append(args, id, p.Name, p.Version, p.Kind)
		}
		query := `INSERT INTO container_lock_packages (lock_id, name, version, kind) VALUES ` + sqldb.Placeholders(1, len(some), columns) + ` ON CONFLICT DO NOTHING` //nolint:gosec // placeholders
		if _, err := t.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("indexing packages: %w", err)
		}
	}
	return nil
}

// DeletePackages deletes up to limits.RequestsDeleted locks that no request has, and that none was
// connected with since before. It returns whether there may be more.
func (s Store) DeletePackages(ctx context.Context, before time.Time) (more bool, err error) {
	const isUnused = `used_at < $1 AND NOT EXISTS (SELECT 1 FROM container_requests r WHERE r.lock_id = container_indexed_locks.id AND r.lock_id <> '?' AND r.lock_id <> '')`
	ids, err := sqldb.Listing[string]{Scan: scannedText, Read: `SELECT id FROM container_indexed_locks WHERE ` + isUnused + ` ORDER BY id LIMIT $2`}.
		All(ctx, s.db, sqldb.Micros(before), limits.RequestsDeleted)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		err := s.db.Tx(ctx, func(t *sql.Tx) error {
			res, err := t.ExecContext(ctx, `DELETE FROM container_indexed_locks WHERE `+isUnused+` AND id = $2`, sqldb.Micros(before), id)
			if deleted, err := s.db.Changed(res, err); err != nil || !deleted {
				return err
			}
			_, err = t.ExecContext(ctx, `DELETE FROM container_lock_packages WHERE lock_id = $1`, id)
			return err
		})
		if err != nil {
			return false, fmt.Errorf("deleting the packages of images: %w", err)
		}
	}
	return len(ids) == limits.RequestsDeleted, nil
}

// Versions returns the versions of a package in images that were requested by a user, or by any
// caller if owner is nil; at most one more than limits.OutdatedVersions.
func (s Store) Versions(ctx context.Context, owner *platformv1.Identity, name string) ([]string, error) {
	args, owned := []any{name, limits.OutdatedVersions + 1}, ""
	if owner != nil {
		args = append(args, ownerArguments(owner)...)
		owned = ` AND EXISTS (SELECT 1 FROM container_requests WHERE lock_id = p.lock_id AND lock_id <> '?' AND lock_id <> ''` + ownedBy(3) + `)`
	}
	query := `SELECT DISTINCT version FROM container_lock_packages p WHERE name = $1` + owned + ` LIMIT $2`
	return sqldb.Listing[string]{Scan: scannedText, Read: query}.All(ctx, s.db, args...)
}

// An ImageQuery selects kept images with a package.
type ImageQuery struct {
	// Owner is the user whose requests are selected; nil selects those of all callers. The
	// workspace and the repositories restrict them as in Store.OfUser.
	Owner *platformv1.Identity
	// Workspace selects the requests of a workspace; 0 selects all.
	Workspace int64
	Name      string
	Versions  []string
	From      PagePosition
	// Most is the maximum number of results.
	Most int
	Now  time.Time
}

// A PackagedRecord is a request with those packages of its image that a query selects.
type PackagedRecord struct {
	Record
	Packages []ImagePackage
	// ReplacedBy is the key of the newest request that patched the image; "" for none.
	ReplacedBy string
	lock       string
}

// WithPackage returns kept images with one of the versions of a package, newest first.
func (s Store) WithPackage(ctx context.Context, q ImageQuery) ([]PackagedRecord, error) {
	if len(q.Versions) == 0 {
		return nil, nil
	}
	args := []any{q.Name, sqldb.Micros(q.Now), q.From.created, q.From.key, q.Most, q.Workspace}
	owned := ""
	if q.Owner != nil {
		args = append(args, ownerArguments(q.Owner)...)
		owned = ownedBy(len(args) - len(ownerArguments(q.Owner)) + 1)
	}
	list := sqldb.Placeholders(len(args)+1, 1, len(q.Versions))
	for _, v := range q.Versions {
		args = append(args, v)
	}
	outdated := `(SELECT lock_id FROM container_lock_packages WHERE name = $1 AND version IN ` + list + `)`
	// A patch counts while its image is kept, is not outdated itself, and its build has not failed.
	query := `
		SELECT ` + columns + `, lock_id, CASE WHEN replaced_by <> '' AND EXISTS (
			SELECT 1 FROM container_requests n WHERE n.id = container_requests.replaced_by AND n.revoked_at = 0 AND (n.frozen OR n.expires_at > $2)
				AND n.lock_id <> '' AND n.lock_id NOT IN ` + outdated + `) THEN replaced_by ELSE '' END
		FROM container_requests
		WHERE lock_id IN ` + outdated + `
			AND lock_id <> '?' AND lock_id <> '' AND revoked_at = 0 AND (frozen OR expires_at > $2)
			AND (created_at, id) < ($3, $4) AND (workspace_id = $6 OR $6 = 0)` + owned + `
		ORDER BY created_at DESC, id DESC LIMIT $5`
	out, err := sqldb.Listing[PackagedRecord]{Scan: scannedPackaged, Read: query}.All(ctx, s.db, args...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return out, s.addPackages(ctx, q, out)
}

// ownerArguments are the arguments of ownedBy.
func ownerArguments(who *platformv1.Identity) []any {
	return []any{who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId(), caller.Of(who).Restriction()}
}

// ownedBy returns the condition that a request is a user's. Its parameters begin with first.
func ownedBy(first int) string {
	return fmt.Sprintf(` AND endpoint = $%d AND endpoint <> '' AND user_id = $%d AND (workspace_id = $%[3]d OR $%[3]d = 0) AND (restriction = $%[4]d OR $%[4]d = '')`,
		first, first+1, first+2, first+3)
}

// scannedPackaged reads a row of WithPackage.
func scannedPackaged(rows *sql.Rows) (out PackagedRecord, err error) {
	out.Record, err = scanned(extended{rows, []any{&out.lock, &out.ReplacedBy}})
	return out, err
}

// An extended row has more columns than the scanned ones.
type extended struct {
	*sql.Rows
	more []any
}

func (e extended) Scan(into ...any) error { return e.Rows.Scan(append(into, e.more...)...) }

// SetReplaced records that a request patched the image of an earlier one.
func (s Store) SetReplaced(ctx context.Context, earlier, by string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_requests SET replaced_by = $2 WHERE id = $1`, earlier, by)
	return err
}

// addPackages adds the selected packages to the results of a query.
func (s Store) addPackages(ctx context.Context, q ImageQuery, to []PackagedRecord) error {
	found := map[string][]ImagePackage{}
	for some := range slices.Chunk(to, 500) {
		args := []any{q.Name}
		for _, r := range some {
			args = append(args, r.lock)
		}
		query := `SELECT lock_id, version, kind FROM container_lock_packages WHERE name = $1 AND lock_id IN ` + sqldb.Placeholders(2, 1, len(some)) + ` ORDER BY lock_id, version, kind`
		type row struct {
			lock string
			ImagePackage
		}
		rows, err := sqldb.Listing[row]{Read: query, Scan: func(rows *sql.Rows) (r row, err error) {
			err = rows.Scan(&r.lock, &r.Version, &r.Kind)
			r.Name = q.Name
			return r, err
		}}.All(ctx, s.db, args...)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if slices.Contains(q.Versions, r.Version) && !slices.Contains(found[r.lock], r.ImagePackage) {
				found[r.lock] = append(found[r.lock], r.ImagePackage)
			}
		}
	}
	for i := range to {
		to[i].Packages = found[to[i].lock]
	}
	return nil
}

// CountUnindexed returns the number of valid requests whose packages are not indexed or not known.
// owner is nil for those of all callers.
func (s Store) CountUnindexed(ctx context.Context, owner *platformv1.Identity, now time.Time) (sum int, err error) {
	args, owned := []any{sqldb.Micros(now)}, ""
	if owner != nil {
		args, owned = append(args, ownerArguments(owner)...), ownedBy(2)
	}
	for _, kind := range []string{`lock_id = '?' AND build_id <> ''`, `lock_id = '` + unknownLock + `' AND lock_id <> '?' AND lock_id <> ''`} {
		var n int
		query := `SELECT count(*) FROM container_requests WHERE ` + kind + ` AND revoked_at = 0 AND (frozen OR expires_at > $1)` + owned
		if err := s.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
