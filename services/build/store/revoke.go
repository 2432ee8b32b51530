package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/sqldb"
)

// ReasonRevoked is the reason of a build whose image was discarded, because a worker that
// built it, or built an image or a layer in it, was revoked.
const ReasonRevoked = "revoked"

// Values that replace the hash of a build's ticket after a worker was revoked.
const (
	// revokedTicket marks a build that is queued again because a revoked worker was building it
	// or signed layers of it.
	revokedTicket = "revoked"
	// revokedInputs marks a build that fails, because it is made from a discarded image.
	revokedInputs = "revoked inputs"
)

// A WorkerImage is an image that a worker built, or that has layers that it signed, or that
// was built from such an image.
type WorkerImage struct{ BuildID, Target, Digest string }

// Conditions on rows whose worker is $1, or whose key was registered with the certificate $1.
const (
	keysOf   = `worker = $1 OR certificate = $1 AND certificate <> ''`
	takenBy  = `worker <> '' AND (worker = $1 OR worker IN (SELECT worker FROM build_workers WHERE ` + keysOf + `))`
	builtBy  = `id IN (SELECT build_id FROM build_makers WHERE ` + takenBy + `)`
	signedBy = `id IN (SELECT build_id FROM build_layer_keys WHERE key_id IN (SELECT key_id FROM build_workers WHERE ` + keysOf + `))`
)

// RevokeWorker revokes the keys of a worker, or all keys that were registered with a
// certificate. Such a certificate is barred: no worker can register a key with it any more.
//
// RevokeWorker discards the images of the worker, and all images that were made from these:
// their builds count as failed from then on, with ReasonRevoked and the message. Reports of
// the worker about its jobs are ignored, and Revoked returns the builds of these jobs. The
// packages that the worker reported are removed from the index.
//
// It returns the discarded images, sorted by name, and whether name is that of a known worker
// or certificate.
func (s Store) RevokeWorker(ctx context.Context, name, message string, now time.Time) (images []WorkerImage, known bool, err error) {
	if name == "" {
		return nil, false, nil
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		keys, err := affected(tx.ExecContext(ctx, `
			UPDATE build_workers SET
				revoked_at = CASE WHEN revoked_at = 0 THEN $2 ELSE revoked_at END,
				barred = barred OR certificate = $1
			WHERE `+keysOf, name, sqldb.Micros(now)))
		if err != nil {
			return err
		}
		// An image that it pushed to one of these names is not recognised, even if it reported
		// another result.
		taken, err := affected(tx.ExecContext(ctx, `
			INSERT INTO build_discarded (build_id, target, made, rebuilt, discarded_at)
			SELECT id, target, FALSE, FALSE, $2 FROM build_builds WHERE `+builtBy+` ON CONFLICT DO NOTHING`, name, sqldb.Micros(now)))
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE build_builds SET ticket = $2
			WHERE state = 'PENDING' AND ticket <> '' AND (`+takenBy+` OR `+signedBy+`)`, name, revokedTicket); err != nil {
			return err
		}
		if err := removeIndexed(ctx, tx, takenBy, name); err != nil {
			return err
		}
		if err := forgetRebuilds(ctx, tx, name); err != nil {
			return err
		}
		builds, err := revokedBuilds(ctx, tx, name)
		if err != nil {
			return err
		}
		known = keys+taken+int64(len(builds)) > 0
		for _, b := range builds {
			if err := b.discard(ctx, tx, message, now); err != nil {
				return err
			}
			if !b.pending {
				images = append(images, b.WorkerImage)
			}
		}
		return nil
	})
	return images, known, err
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// A revokedBuild is a build whose image is to be discarded.
type revokedBuild struct {
	WorkerImage
	// pending reports whether the build has not ended; then it must fail.
	pending bool
	// created is in microseconds.
	created int64
	cache   cacheKey
}

// A cacheKey is the primary key of a cache's record.
type cacheKey struct{ scope, platform, repository string }

// revokedBuilds returns the builds whose images must be discarded: those that a worker built
// or signed layers of, and all builds, also running ones, that use such an image or a cache
// of its build.
func revokedBuilds(ctx context.Context, tx *sql.Tx, name string) ([]revokedBuild, error) {
	own, first := map[string]bool{}, int64(math.MaxInt64)
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		var created int64
		if err := rows.Scan(&id, &created); err != nil {
			return err
		}
		own[id], first = true, min(first, created)
		return nil
	}, `SELECT id, created_at FROM build_builds WHERE `+builtBy+` OR `+signedBy, name)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	t := tainted{own: own, ids: map[string]bool{}, digests: map[string]bool{}, caches: map[cacheKey]int64{}, found: map[string]revokedBuild{}}
	// Repeat until a pass finds no more builds. The first pass nearly always finds all: a
	// build is recorded after the builds whose images it reads, unless the clock was set back.
	for before := -1; before < len(t.found); {
		before = len(t.found)
		err = each(ctx, tx, t.add, `SELECT id, owner, digest, request, state, succeeded, created_at FROM build_builds
			WHERE (state = 'PENDING' OR succeeded) AND created_at >= $1 ORDER BY created_at, number, id`, first)
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(t.found), func(a, b revokedBuild) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.BuildID, b.BuildID))
	}), nil
}

// A tainted holds the builds, images and caches that depend on a revoked worker.
type tainted struct {
	// own are the builds that the worker took or signed layers of.
	own map[string]bool
	// ids are the builds of images to discard, and digests the images. caches are the caches
	// that these builds may have exported, with the time of the first such build in
	// microseconds.
	ids, digests map[string]bool
	caches       map[cacheKey]int64
	found        map[string]revokedBuild
}

// add adds the build in a row if it is tainted.
func (t tainted) add(rows *sql.Rows) error {
	r := Record{Request: &buildv1.SubmitBuildRequest{}}
	var raw []byte
	var state string
	var created int64
	if err := rows.Scan(&r.ID, &r.Owner, &r.Digest, &raw, &state, &r.Succeeded, &created); err != nil {
		return err
	}
	if err := proto.Unmarshal(raw, r.Request); err != nil {
		return fmt.Errorf("reading the stored build %s: %w", r.ID, err)
	}
	cache := cacheKey{r.CacheScope(), r.Request.GetRecipe().GetPlatform(), r.Request.GetTarget().GetCacheRepository()}
	since, shares := t.caches[cache]
	pending := state == "PENDING"
	// A pending build may begin with the image that the worker pushed as its first part.
	recipe := r.Request.GetRecipe()
	mine := t.own[r.ID] && (!pending || recipe.GetEngine() == engine.BuildKit && recipe.GetSource() != nil)
	if late := shares && created > since; !mine && !late && !t.reads(r.Request) {
		return nil
	}
	t.found[r.ID] = revokedBuild{WorkerImage{r.ID, Image(r.Request.GetTarget()), r.Digest}, pending, created, cache}
	if t.ids[r.ID] = true; r.Digest != "" {
		t.digests[r.Digest] = true
	}
	if cache.repository != "" && !shares {
		t.caches[cache] = created
	}
	return nil
}

// reads reports whether a build is made from tainted images, by the ids of their builds or by
// their digests.
func (t tainted) reads(req *buildv1.SubmitBuildRequest) bool {
	recipe := req.GetRecipe()
	return slices.ContainsFunc(req.GetPartIds(), func(id string) bool { return t.ids[id] }) ||
		slices.ContainsFunc(req.GetGivenImages(), func(image *containerv1.Source) bool { return t.digests[image.GetReference()] }) ||
		slices.ContainsFunc(recipe.GetConfig().GetLayers(), func(l *containerv1.Layer) bool {
			from := l.GetIncludedFrom()
			return from != nil && (t.ids[from.GetBuildId()] || t.digests[from.GetReference()])
		}) ||
		t.digests[recipe.GetSource().GetReference()]
}

// each calls f for each row of a query.
func each(ctx context.Context, tx *sql.Tx, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// discard marks a build that has ended as failed, so that no request gets its image any more,
// and deletes the record of the cache that it may have exported. It marks a pending build as
// one that must fail.
func (b revokedBuild) discard(ctx context.Context, tx *sql.Tx, message string, now time.Time) error {
	if b.pending {
		_, err := tx.ExecContext(ctx, `UPDATE build_builds SET ticket = $2 WHERE id = $1 AND state = 'PENDING'`, b.BuildID, revokedInputs)
		return err
	}
	for _, statement := range []struct {
		text string
		args []any
	}{
		{`UPDATE build_builds SET succeeded = FALSE, reason = $2, message = $3 WHERE id = $1`, []any{b.BuildID, ReasonRevoked, message}},
		{`INSERT INTO build_discarded (build_id, target, made, rebuilt, discarded_at) VALUES ($1, $2, TRUE, FALSE, $3)
			ON CONFLICT (build_id) DO UPDATE SET made = TRUE, rebuilt = FALSE`, []any{b.BuildID, b.Target, sqldb.Micros(now)}},
		// Discard earlier builds of the same image, too: the registry lost the image, and their
		// names resolve to the image of this build.
		{`INSERT INTO build_discarded (build_id, target, made, rebuilt, discarded_at)
			SELECT id, target, TRUE, FALSE, $4 FROM build_builds WHERE target = $2 AND id <> $1 AND succeeded AND created_at <= $3
			ON CONFLICT (build_id) DO UPDATE SET made = TRUE, rebuilt = FALSE`, []any{b.BuildID, b.Target, b.created, sqldb.Micros(now)}},
		{`UPDATE build_builds SET succeeded = FALSE, reason = $4, message = $5 WHERE target = $2 AND id <> $1 AND succeeded AND created_at <= $3`,
			[]any{b.BuildID, b.Target, b.created, ReasonRevoked, message}},
		{`DELETE FROM build_caches WHERE scope = $1 AND platform = $2 AND repository = $3`, []any{b.cache.scope, b.cache.platform, b.cache.repository}},
	} {
		if _, err := tx.ExecContext(ctx, statement.text, statement.args...); err != nil {
			return err
		}
	}
	return nil
}

// Revoked returns two lists of pending builds: those of revoked workers, which must be queued
// again, and those that use discarded images, which must fail.
func (s Store) Revoked(ctx context.Context) (again, failing []Record, err error) {
	if again, err = s.list(ctx, `state = 'PENDING' AND ticket = $1`, revokedTicket); err != nil {
		return nil, nil, err
	}
	failing, err = s.list(ctx, `state = 'PENDING' AND ticket = $1`, revokedInputs)
	return again, failing, err
}

// ReleaseRevoked is Release for a build of a revoked worker, or with layers of such a worker.
// It has no effect if another worker has taken the build since. It also deletes the records
// of the build's earlier workers and keys, because the build starts again from the beginning.
func (s Store) ReleaseRevoked(ctx context.Context, id string) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `
			UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0, ticket = ''
			WHERE id = $1 AND state = 'PENDING' AND ticket = $2`, id, revokedTicket))
		for _, forget := range []string{
			`DELETE FROM build_makers WHERE build_id = $1`,
			`DELETE FROM build_layer_keys WHERE build_id = $1`,
		} {
			if err == nil && n > 0 {
				_, err = tx.ExecContext(ctx, forget, id)
			}
		}
		return err
	})
}

// IsDiscarded reports whether a revoked worker may have pushed the image at a target, and no
// other build has made it since.
func (s Store) IsDiscarded(ctx context.Context, target string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT COUNT(*) FROM build_discarded WHERE target = $1 AND NOT rebuilt`, target).Scan(&n)
	return n > 0, err
}

// Discarded returns the ids of builds whose images were discarded: up to limit, in ascending
// order, beginning after the given id.
func (s Store) Discarded(ctx context.Context, after string, limit int) ([]string, error) {
	return sqldb.Listing[string]{
		Read: `SELECT build_id FROM build_discarded WHERE made AND build_id > $1 ORDER BY build_id LIMIT $2`,
		Scan: func(rows *sql.Rows) (id string, err error) {
			err = rows.Scan(&id)
			return id, err
		},
	}.All(ctx, s.db, after, limit)
}
