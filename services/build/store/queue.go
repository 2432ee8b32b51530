package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sqldb"
)

// Pending returns the unfinished build of an image.
func (s Store) Pending(ctx context.Context, target, scope string) (Record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'PENDING'`, target, scope)
}

// NewestSuccess returns the newest successful build of an image.
func (s Store) NewestSuccess(ctx context.Context, target, scope string) (Record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'COMPLETED' AND succeeded ORDER BY number DESC LIMIT 1`, target, scope)
}

// ByTicket returns the unfinished build whose newest delivery has the ticket with a hash, or
// fault.NotFound.
func (s Store) ByTicket(ctx context.Context, hash string) (Record, error) {
	return s.one(ctx, `ticket = $1 AND ticket <> '' AND state = 'PENDING'`, hash)
}

// Ticket returns the hash of the newest delivery's ticket, also after the build has ended;
// "" if no worker took it.
func (s Store) Ticket(ctx context.Context, id string) (hash string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT ticket FROM build_builds WHERE id = $1`, id).Scan(&hash)
	return hash, err
}

// Foreign reports whether an id belongs to a build of other content.
func (s Store) Foreign(ctx context.Context, id, contentID string) (bool, error) {
	n, err := s.count(ctx, `id = $1 AND content_id <> $2`, id, contentID)
	return n > 0, err
}

// LastNumber returns the number of the newest build of a content; 0 without a build.
func (s Store) LastNumber(ctx context.Context, contentID string) (n int64, err error) {
	err = s.db.PreparedRow(ctx, `SELECT COALESCE(MAX(number), 0) FROM build_builds WHERE content_id = $1`, contentID).Scan(&n)
	return n, err
}

// Newest returns the newest build of a content, or fault.NotFound.
func (s Store) Newest(ctx context.Context, contentDigest string) (Record, error) {
	return s.one(ctx, `content_id = $1 AND content_digest = $2 ORDER BY number DESC LIMIT 1`, contentDigest[:16], contentDigest)
}

// FirstWith returns the first build of a content in a scope that made an image with a digest, or the
// artifact with its environment, or fault.NotFound. A worker made it, or this service if it is an index. Records of images that were
// found in the repository do not count, since any client that may push there could have made them:
// these have no worker, and ended when they were created.
func (s Store) FirstWith(ctx context.Context, contentDigest, scope, digest string) (Record, error) {
	return s.one(ctx, `content_id = $1 AND content_digest = $2 AND scope = $3 AND $4 IN (digest, environment) AND succeeded
		AND (worker <> '' OR engine = $5 AND completed_at > created_at) ORDER BY number LIMIT 1`,
		contentDigest[:16], contentDigest, scope, digest, engine.Index)
}

// mine is the condition for the builds of a user. The index build_builds_by_user has all its columns.
const mine = `endpoint = $1 AND user_id = $2 AND (workspace_id = $3 OR $3 = 0) AND (restriction = $4 OR $4 = '')`

// OfUser returns builds of a user of a platform, the newest first. If the user has a workspace or
// repositories, it only returns builds with the same.
func (s Store) OfUser(ctx context.Context, who caller.ID, limit, offset int) ([]Record, error) {
	return s.list(ctx, mine+` ORDER BY created_at DESC, id LIMIT $5 OFFSET $6`, who.Endpoint, who.UserID, who.WorkspaceID, who.Restriction(), limit, offset)
}

// NumberOfUser returns the number of builds of OfUser. It reads the index of each of them.
func (s Store) NumberOfUser(ctx context.Context, who caller.ID) (int32, error) {
	return s.count(ctx, mine, who.Endpoint, who.UserID, who.WorkspaceID, who.Restriction())
}

// Ahead counts the older builds that wait for the same workers.
func (s Store) Ahead(ctx context.Context, r Record) (int32, error) {
	c := r.Kind()
	return s.count(ctx, `state = 'PENDING' AND started_at = 0 AND engine = $1 AND architecture = $2 AND created_at < $3`,
		c.Engine, c.Architecture, sqldb.Micros(r.Created))
}

// Published returns the builds whose jobs are on the bus or with a worker.
func (s Store) Published(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND published_at > 0`)
}

// OpenIndexes returns the unfinished indexes.
func (s Store) OpenIndexes(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine = $1`, engine.Index)
}

// Dependents returns the unfinished builds that may use images of other builds.
func (s Store) Dependents(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine IN ($1, $2)`, engine.Index, engine.Sif)
}

// Untaken returns the builds that were created before a time and that no worker has taken.
func (s Store) Untaken(ctx context.Context, before time.Time) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND started_at = 0 AND solve_at = 0 AND engine <> $1 AND created_at < $2`, engine.Index, sqldb.Micros(before))
}

// inView is how many waiting builds of one owner in one workspace the dispatcher considers. It
// never dispatches more at a time, and the limit prevents one long queue from hiding other builds:
// those of other owners, and of the same owner in workspaces whose limit is not used up.
const inView = 50

// FirstOfEach returns the waiting builds of each owner and workspace, up to inView. Users come first,
// so that any number of anonymous owners does not hide them, and then the first of each queue.
func (s Store) FirstOfEach(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `id IN (
		SELECT id FROM (
			SELECT id, ROW_NUMBER() OVER (PARTITION BY owner, workspace_id ORDER BY created_at, id) AS place
			FROM build_builds WHERE state = 'PENDING' AND published_at = 0 AND solve_at = 0 AND engine <> $1
		) AS queue WHERE place <= $2)
		ORDER BY CASE WHEN user_id = 0 THEN 1 ELSE 0 END, ROW_NUMBER() OVER (PARTITION BY owner, workspace_id ORDER BY created_at, id), created_at, id LIMIT 2000`, engine.Index, inView)
}

// Unfinished holds the number of waiting and running builds, and since when the oldest has
// waited.
type Unfinished struct {
	Queued, Running int64
	Oldest          time.Time // zero if none waits
}

// Unfinished counts the unfinished builds by kind.
func (s Store) Unfinished(ctx context.Context) (_ map[engine.Kind]Unfinished, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT engine, architecture, SUM(CASE WHEN started_at = 0 THEN 1 ELSE 0 END),
			SUM(CASE WHEN started_at > 0 THEN 1 ELSE 0 END), COALESCE(MIN(CASE WHEN started_at = 0 THEN created_at END), 0)
		FROM build_builds WHERE state = 'PENDING' AND engine <> $1 GROUP BY engine, architecture`, engine.Index)
	if err != nil {
		return nil, fmt.Errorf("counting builds: %w", err)
	}
	defer rows.Close()
	all := map[engine.Kind]Unfinished{}
	for rows.Next() {
		var c engine.Kind
		var u Unfinished
		var oldest int64
		if err := rows.Scan(&c.Engine, &c.Architecture, &u.Queued, &u.Running, &oldest); err != nil {
			return nil, fmt.Errorf("counting builds: %w", err)
		}
		u.Oldest = sqldb.Time(oldest)
		all[c] = u
	}
	return all, rows.Err()
}

// MarkPublished records that the job of a build is on the bus. It has no effect if the build
// has been queued again since r was read, for example because a fast worker already returned
// it.
func (s Store) MarkPublished(ctx context.Context, r Record, now time.Time) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = $3 WHERE id = $1 AND state = 'PENDING' AND publications = $2`,
		r.ID, r.Publications, sqldb.Micros(now))
	return err
}

// Unpublish queues a build again because its job is no longer on the bus. It has no effect if
// another replica has already done so since r was read.
func (s Store) Unpublish(ctx context.Context, r Record) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0
		WHERE id = $1 AND state = 'PENDING' AND publications = $2`, r.ID, r.Publications)
	return err
}

// Reroute is Release for a build that continues on another engine: it waits again, and its
// time limit starts when that engine takes it. It returns false if the build has ended.
func (s Store) Reroute(ctx context.Context, id string, req *buildv1.SubmitBuildRequest) (changed bool, err error) {
	raw, err := proto.Marshal(req)
	if err != nil {
		return false, err
	}
	return s.change(ctx, `
		UPDATE build_builds SET engine = $2, architecture = $3, request = $4,
			published_at = 0, publications = publications + 1, delivery = 0, ticket = '', started_at = 0
		WHERE id = $1 AND state = 'PENDING'`, id, req.GetRecipe().GetEngine(), engine.KindOf(req.GetRecipe()).Architecture, raw)
}

// Release is Unpublish for a build that its worker has returned to the queue. Its ticket
// was sent over the bus and becomes invalid.
func (s Store) Release(ctx context.Context, id string) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0, ticket = ''
		WHERE id = $1 AND state = 'PENDING'`, id)
	return err
}

// Take records that a delivery was taken. It returns false if the build has ended, or if a
// later delivery was taken already.
func (s Store) Take(ctx context.Context, id string, delivery int64, worker, ticket string, now time.Time) (taken bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `
			UPDATE build_builds
			SET delivery = $2, worker = $3, ticket = $4, started_at = CASE WHEN started_at = 0 THEN $5 ELSE started_at END
			WHERE id = $1 AND state = 'PENDING' AND delivery <= $2 AND ticket <> '`+revokedInputs+`'`,
			id, delivery, worker, ticket, sqldb.Micros(now)))
		if taken = n > 0; err != nil || !taken {
			return err
		}
		if _, err = tx.ExecContext(ctx, `INSERT INTO build_makers (build_id, worker) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, worker); err != nil {
			return err
		}
		return addStarted(ctx, tx, id, now)
	})
	return taken, err
}

// Complete ends a build. It returns false if it had already ended, if the result is a
// failure of an older delivery, or if the worker was revoked meanwhile. The ticket is kept,
// but is no longer valid.
func (s Store) Complete(ctx context.Context, r *buildv1.Result, now time.Time) (ended bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		ended, err = complete(ctx, tx, r, now)
		return err
	})
	return ended, err
}

func complete(ctx context.Context, tx *sql.Tx, r *buildv1.Result, now time.Time) (ended bool, err error) {
	inputs, err := sqldb.Pack(r.GetInputs())
	if err != nil {
		return false, err
	}
	n, err := affected(tx.ExecContext(ctx, `
		UPDATE build_builds
		SET state = 'COMPLETED', completed_at = $2, succeeded = $3, reason = $4, message = $5, digest = $6, inputs = $8, environment = $9
		WHERE id = $1 AND state = 'PENDING' AND ($3 AND ticket NOT IN ('`+revokedTicket+`', '`+revokedInputs+`') OR NOT $3 AND delivery <= $7)`,
		r.GetBuildId(), sqldb.Micros(now), r.GetSucceeded(), r.GetReason(), r.GetMessage(), r.GetDigest(), r.GetDelivery(), inputs, r.GetEnvironment()))
	if err != nil || n == 0 {
		return false, err
	}
	if err := addEnded(ctx, tx, r.GetBuildId(), r.GetSucceeded(), now); err != nil || !r.GetSucceeded() {
		return true, err
	}
	_, err = tx.ExecContext(ctx, `UPDATE build_discarded SET rebuilt = TRUE
		WHERE target = (SELECT target FROM build_builds WHERE id = $1)`, r.GetBuildId())
	return true, err
}

// RemoveEnded deletes the builds that ended before a time, with their data.
func (s Store) RemoveEnded(ctx context.Context, before time.Time) error {
	at := sqldb.Micros(before)
	_, err1 := s.change(ctx, `DELETE FROM build_logs WHERE build_id IN
		(SELECT id FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1)`, at)
	_, err2 := s.change(ctx, `DELETE FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1`, at)
	_, err3 := s.change(ctx, `DELETE FROM build_caches WHERE noted_at < $1`, at)
	_, err4 := s.change(ctx, `DELETE FROM build_layer_keys WHERE build_id NOT IN (SELECT id FROM build_builds)`)
	_, err5 := s.change(ctx, `DELETE FROM build_makers WHERE build_id NOT IN (SELECT id FROM build_builds)`)
	_, err6 := s.change(ctx, `DELETE FROM build_events WHERE at < $1`, at)
	return errors.Join(err1, err2, err3, err4, err5, err6)
}
