package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A Kept is a row of container_kept: an image with a name that does not expire.
type Kept struct {
	// ID is Content for a public image. That of an image of an organisation is random, since it gives access.
	ID string
	// Content is the content ID of the build.
	Content string
	// Organization is the ID of the organisation whose image it is; 0 for a public one.
	Organization int64
	// Name and Tag are those of the image below its ID.
	Name, Tag        string
	Platform, Format string
	BuildID          string
	Created          time.Time
	// Built is zero until the image is built. Digest and Size, in bytes, are then set as well.
	Built  time.Time
	Digest string
	Size   int64
	Pulls  int64
	// LastPull is a date in UTC; "" without pulls.
	LastPull string
	// Deleted is zero while the name works.
	Deleted  time.Time
	Deletion string
	// Specs are what was requested.
	Specs, Channels []string
	// BaseImage has a digest.
	BaseImage    string
	PackageCount int
	// Packages are those that the query selects.
	Packages []KeptPackage
}

// A KeptPackage is a package of a kept image.
type KeptPackage struct {
	ImagePackage
	License string
	// Requested is false for a dependency.
	Requested bool
}

// A NewKept is an image to keep.
type NewKept struct {
	Kept
	// Client is who keeps it.
	Client string
	// Build makes the image, at any time.
	Build *buildv1.SubmitBuildRequest
}

// unknownKept returns the fault for an image that was never kept.
func unknownKept(cause error) error {
	return fault.NotFound.New("There is no such image in the catalog", cause)
}

// MayKeep returns whether a client may keep an image: fault.Conflict if an operator deleted it, and
// fault.Exhausted if the client or all clients have kept as many others as they may.
func (s Store) MayKeep(ctx context.Context, content string, organization int64, client string) error {
	k, err := s.KeptContent(ctx, content, organization)
	switch {
	case err == nil && !k.Deleted.IsZero() && organization != 0: // another one gets another name
	case err == nil && !k.Deleted.IsZero():
		return fault.Conflict.Newf("The operator of this server deleted the name of this image%s; request it without keep", because(k.Deletion))
	case err == nil || !errors.Is(err, fault.NotFound):
		return err
	}
	var all, own int64
	err = s.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM container_kept WHERE deleted_at = 0), (SELECT count(*) FROM container_kept WHERE client = $1 AND deleted_at = 0)`, client).Scan(&all, &own)
	switch {
	case err != nil:
		return err
	case all >= limits.KeptImages:
		return fault.Exhausted.Newf("The catalog has %d images, which is the limit; try again after the operator of this server has deleted some", all)
	case own >= limits.KeptImagesClient:
		return fault.Exhausted.Newf("You have kept %d images, which is the limit; request the image without keep, or try again after the operator of this server has deleted some", own)
	}
	return nil
}

// Keep inserts an image unless the organisation, or the public, has one of this content, and returns the stored one.
// For an image that was never built, it begins again to wait for the build.
func (s Store) Keep(ctx context.Context, k NewKept) (Kept, error) {
	build, err := sqldb.Pack(k.Build)
	if err != nil {
		return k.Kept, err
	}
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		res, err := t.ExecContext(ctx, `
			INSERT INTO container_kept (id, content, organization, name, tag, platform, format, client, specs, channels, base_image, build,
				build_id, package_count, created_at, built_at, digest, size, pulls, deleted_at, deletion)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, '', 0, 0, 0, '')
			ON CONFLICT DO NOTHING`,
			k.ID, k.Content, k.Organization, k.Name, k.Tag, k.Platform, k.Format, k.Client, lines(k.Specs), lines(k.Channels), k.BaseImage, build, k.BuildID, k.PackageCount, sqldb.Micros(k.Created))
		if inserted, err := s.db.Changed(res, err); err != nil {
			return fmt.Errorf("keeping an image: %w", err)
		} else if inserted {
			return insertKeptPackages(ctx, t, k.ID, k.Packages)
		}
		_, err = t.ExecContext(ctx, `UPDATE container_kept SET build_id = $3, created_at = CASE WHEN built_at = 0 THEN $4 ELSE created_at END
			WHERE content = $1 AND organization = $2 AND deleted_at = 0`, k.Content, k.Organization, k.BuildID, sqldb.Micros(k.Created))
		return err
	})
	if err != nil {
		return k.Kept, err
	}
	return s.KeptContent(ctx, k.Content, k.Organization)
}

func lines(list []string) string { return strings.Join(list, "\n") }

func listed(lines string) []string {
	if lines == "" {
		return nil
	}
	return strings.Split(lines, "\n")
}

// because returns a reason as the end of a sentence.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

func insertKeptPackages(ctx context.Context, t *sql.Tx, id string, packages []KeptPackage) error {
	const columns = 6
	for some := range slices.Chunk(packages, 200) {
		var args []any
		for _, p := range some {
			args = append(args, id, p.Name, p.Version, p.Kind, p.License, p.Requested)
		}
		query := `INSERT INTO container_kept_packages (kept_id, name, version, kind, license, requested) VALUES ` + sqldb.Placeholders(1, len(some), columns) + ` ON CONFLICT DO NOTHING` //nolint:gosec // placeholders
		if _, err := t.ExecContext(ctx, query, args...); err != nil {
			return fmt.Errorf("keeping the packages of an image: %w", err)
		}
	}
	return nil
}

// keptColumns lists the columns that scannedKept reads.
const keptColumns = `id, content, organization, name, tag, platform, format, build_id, created_at, built_at, digest, size, pulls, deleted_at, deletion, specs, channels, base_image, package_count,
	COALESCE((SELECT max(day) FROM container_kept_pulls WHERE kept_id = id), '')`

func scannedKept(row interface{ Scan(into ...any) error }) (Kept, error) {
	var k Kept
	var created, built, deleted int64
	var specs, channels string
	err := row.Scan(&k.ID, &k.Content, &k.Organization, &k.Name, &k.Tag, &k.Platform, &k.Format, &k.BuildID, &created, &built, &k.Digest, &k.Size, &k.Pulls, &deleted, &k.Deletion, &specs, &channels, &k.BaseImage, &k.PackageCount, &k.LastPull)
	k.Created, k.Built, k.Deleted = sqldb.Time(created), sqldb.Time(built), sqldb.Time(deleted)
	k.Specs, k.Channels = listed(specs), listed(channels)
	return k, err
}

func scannedKeptRow(rows *sql.Rows) (Kept, error) { return scannedKept(rows) }

// Kept returns a kept image without its packages, also a deleted one.
func (s Store) Kept(ctx context.Context, id string) (Kept, error) {
	k, err := scannedKept(s.db.PreparedRow(ctx, `SELECT `+keptColumns+` FROM container_kept WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return k, unknownKept(err)
	}
	return k, err
}

// KeptContent returns the kept image of a content that belongs to an organisation, or is public (0), without its packages.
// It returns a deleted one if there is no other, and fault.NotFound without any.
func (s Store) KeptContent(ctx context.Context, content string, organization int64) (Kept, error) {
	k, err := scannedKept(s.db.PreparedRow(ctx, `SELECT `+keptColumns+` FROM container_kept WHERE content = $1 AND organization = $2 ORDER BY deleted_at LIMIT 1`, content, organization))
	if errors.Is(err, sql.ErrNoRows) {
		return k, unknownKept(err)
	}
	return k, err
}

// KeptBuild returns the request that makes a kept image, with its lock.
func (s Store) KeptBuild(ctx context.Context, id string) (*buildv1.SubmitBuildRequest, error) {
	var packed []byte
	err := s.db.PreparedRow(ctx, `SELECT build FROM container_kept WHERE id = $1`, id).Scan(&packed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, unknownKept(err)
	}
	if err != nil {
		return nil, err
	}
	out := &buildv1.SubmitBuildRequest{}
	return out, sqldb.Unpack(packed, limits.KeptBuild, out)
}

// KeptOf returns the kept images that a build makes.
func (s Store) KeptOf(ctx context.Context, build string) ([]Kept, error) {
	return sqldb.Listing[Kept]{Scan: scannedKeptRow, Read: `SELECT ` + keptColumns + ` FROM container_kept WHERE build_id = $1`}.All(ctx, s.db, build)
}

// SetKeptBuild records the newest build of a kept image.
func (s Store) SetKeptBuild(ctx context.Context, id, build string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_kept SET build_id = $2 WHERE id = $1`, id, build)
	return err
}

// SetKeptDigest records that a kept image was built.
func (s Store) SetKeptDigest(ctx context.Context, id, digest string, size int64, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_kept SET digest = $2, size = $3, built_at = $4 WHERE id = $1`, id, digest, size, sqldb.Micros(now))
	return err
}

// DeleteKept deletes the name of a kept image. Repeating it has no effect. It returns fault.NotFound if
// the image was never kept.
func (s Store) DeleteKept(ctx context.Context, id, reason string, now time.Time) error {
	if _, err := s.Kept(ctx, id); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `UPDATE container_kept SET deleted_at = $2, deletion = $3 WHERE id = $1 AND deleted_at = 0`, id, sqldb.Micros(now), reason)
	return err
}

// Unbuilt returns images that were kept before a time and are not known to be built, the oldest first, at most
// limits.RequestsDeleted.
func (s Store) Unbuilt(ctx context.Context, before time.Time) ([]Kept, error) {
	return sqldb.Listing[Kept]{Scan: scannedKeptRow, Read: `SELECT ` + keptColumns + ` FROM container_kept WHERE built_at = 0 AND deleted_at = 0 AND created_at < $1 ORDER BY created_at LIMIT $2`}.
		All(ctx, s.db, sqldb.Micros(before), limits.RequestsDeleted)
}

// DeleteUnbuilt deletes an image unless it was built, or requested since a time.
func (s Store) DeleteUnbuilt(ctx context.Context, id string, since time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		res, err := t.ExecContext(ctx, `DELETE FROM container_kept WHERE id = $1 AND built_at = 0 AND deleted_at = 0 AND created_at < $2`, id, sqldb.Micros(since))
		if deleted, err := s.db.Changed(res, err); err != nil || !deleted {
			return err
		}
		_, err = t.ExecContext(ctx, `DELETE FROM container_kept_packages WHERE kept_id = $1`, id)
		return err
	})
}

// DeleteKeptPulls deletes the numbers of pulls of the days before a day. The totals remain.
func (s Store) DeleteKeptPulls(ctx context.Context, before string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_kept_pulls WHERE day < $1`, before)
	return err
}

// A CatalogQuery selects kept images.
type CatalogQuery struct {
	// Organization is the organisation whose images are selected; 0 selects the public ones.
	Organization int64
	// Words are each the beginning of the name of a requested package or of the image, in lower case.
	Words []string
	// Package, Version and License are described in catalog.proto; "" selects all.
	Package, Version, License string
	// Sort is "newest", "pulls" or "name".
	Sort string
	// After is the ID of the last image of the previous page; "" for the first page.
	After string
	// Most is the maximum number of results.
	Most int
}

// condition returns the condition of a query with its arguments.
func (q CatalogQuery) condition() (where string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	where = `built_at > 0 AND deleted_at = 0 AND organization = ` + arg(q.Organization)
	const has = ` AND EXISTS (SELECT 1 FROM container_kept_packages p WHERE p.kept_id = container_kept.id AND `
	for _, w := range q.Words {
		prefix := arg(sqldb.Prefix(w))
		where += ` AND (container_kept.name LIKE ` + prefix + ` ESCAPE '\' OR EXISTS (SELECT 1 FROM container_kept_packages p
			WHERE p.kept_id = container_kept.id AND p.requested AND p.name LIKE ` + prefix + ` ESCAPE '\'))`
	}
	if q.Package != "" {
		where += has + `p.name = ` + arg(q.Package)
		if q.Version != "" {
			where += ` AND (p.version = ` + arg(q.Version) + ` OR p.version LIKE ` + arg(sqldb.Prefix(q.Version+".")) + ` ESCAPE '\')`
		}
		where += `)`
	}
	if q.License != "" {
		where += has + `p.requested AND lower(p.license) LIKE ` + arg(sqldb.Like(q.License)) + ` ESCAPE '\')`
	}
	return where, args
}

// The orders of the catalog: the columns of each.
var catalogOrders = map[string]struct{ columns, direction, than string }{ //nolint:gochecknoglobals // constant
	"newest": {"created_at, id", " DESC", "<"},
	"pulls":  {"pulls, id", " DESC", "<"},
	"name":   {"name, tag, id", "", ">"},
}

// Catalog returns kept images with their requested packages, at most limits.CatalogRequested of each.
func (s Store) Catalog(ctx context.Context, q CatalogQuery) ([]Kept, error) {
	where, args := q.condition()
	order := catalogOrders[q.Sort]
	if q.After != "" {
		args = append(args, q.After)
		where += fmt.Sprintf(` AND (%s) %s (SELECT %s FROM container_kept WHERE id = $%d)`, order.columns, order.than, order.columns, len(args))
	}
	args = append(args, q.Most)
	by := strings.ReplaceAll(order.columns, ",", order.direction+",") + order.direction
	query := fmt.Sprintf(`SELECT `+keptColumns+` FROM container_kept WHERE %s ORDER BY %s LIMIT $%d`, where, by, len(args))
	out, err := sqldb.Listing[Kept]{Scan: scannedKeptRow, Read: query}.All(ctx, s.db, args...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Packages, err = s.keptPackages(ctx, out[i].ID, `AND requested ORDER BY name, version LIMIT $2`, limits.CatalogRequested); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// KeptPackages returns all packages of a kept image, the requested ones first.
func (s Store) KeptPackages(ctx context.Context, id string) ([]KeptPackage, error) {
	return s.keptPackages(ctx, id, `ORDER BY requested DESC, name, version`)
}

func (s Store) keptPackages(ctx context.Context, id, rest string, args ...any) ([]KeptPackage, error) {
	return sqldb.Listing[KeptPackage]{
		Read: `SELECT name, version, kind, license, requested FROM container_kept_packages WHERE kept_id = $1 ` + rest,
		Scan: func(rows *sql.Rows) (p KeptPackage, err error) {
			err = rows.Scan(&p.Name, &p.Version, &p.Kind, &p.License, &p.Requested)
			return p, err
		},
	}.All(ctx, s.db, append([]any{id}, args...)...)
}

// DayPulls is the number of pulls of a kept image on a day in UTC.
type DayPulls struct {
	Day   string
	Pulls int64
}

// KeptPulls returns the pulls of a kept image since a day, oldest first.
func (s Store) KeptPulls(ctx context.Context, id, since string) ([]DayPulls, error) {
	return sqldb.Listing[DayPulls]{
		Read: `SELECT day, pulls FROM container_kept_pulls WHERE kept_id = $1 AND day >= $2 ORDER BY day`,
		Scan: func(rows *sql.Rows) (d DayPulls, err error) {
			err = rows.Scan(&d.Day, &d.Pulls)
			return d, err
		},
	}.All(ctx, s.db, id, since)
}

// AddKeptPulls adds pulls of kept images, by ID, on a day. Unknown IDs have no effect.
func (s Store) AddKeptPulls(ctx context.Context, pulls map[string]int64, day string) error {
	ids := make([]string, 0, len(pulls))
	for id := range pulls {
		ids = append(ids, id)
	}
	slices.Sort(ids) // replicas lock rows in the same order
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		for _, id := range ids {
			res, err := t.ExecContext(ctx, `UPDATE container_kept SET pulls = pulls + $2 WHERE id = $1`, id, pulls[id])
			if known, err := s.db.Changed(res, err); err != nil || !known {
				if err != nil {
					return err
				}
				continue
			}
			if _, err := t.ExecContext(ctx, `
				INSERT INTO container_kept_pulls (kept_id, day, pulls) VALUES ($1, $2, $3)
				ON CONFLICT (kept_id, day) DO UPDATE SET pulls = container_kept_pulls.pulls + excluded.pulls`, id, day, pulls[id]); err != nil {
				return err
			}
		}
		return nil
	})
}
