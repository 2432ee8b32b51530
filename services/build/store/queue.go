package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/sqldb"
)

// Pending is the build that makes an image just now.
func (s Store) Pending(ctx context.Context, target, scope string) (Record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'PENDING'`, target, scope)
}

// Made is the newest build that made an image.
func (s Store) Made(ctx context.Context, target, scope string) (Record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'COMPLETED' AND succeeded ORDER BY number DESC LIMIT 1`, target, scope)
}

// ByTicket is the build whose newest delivery has a ticket.
func (s Store) ByTicket(ctx context.Context, hash string) (Record, error) {
	return s.one(ctx, `ticket = $1 AND ticket <> '' AND state = 'PENDING'`, hash)
}

// Ticket is the hash of the newest delivery's ticket, also after the build has ended;
// "" when nobody took it.
func (s Store) Ticket(ctx context.Context, id string) (hash string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT ticket FROM build_builds WHERE id = $1`, id).Scan(&hash)
	return hash, err
}

// Foreign says whether an id is that of a build of another content.
func (s Store) Foreign(ctx context.Context, id, contentID string) (bool, error) {
	n, err := s.count(ctx, `id = $1 AND content_id <> $2`, id, contentID)
	return n > 0, err
}

// LastNumber is the newest build's number for a content; 0 when there is none.
func (s Store) LastNumber(ctx context.Context, contentID string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(number), 0) FROM build_builds WHERE content_id = $1`, contentID).Scan(&n)
	return n, err
}

// OfUser reads builds of a user at a platform, the newest first, and counts them all.
func (s Store) OfUser(ctx context.Context, endpoint string, user int64, limit, offset int) (list []Record, total int32, err error) {
	const mine = `endpoint = $1 AND user_id = $2`
	if total, err = s.count(ctx, mine, endpoint, user); err != nil {
		return nil, 0, err
	}
	list, err = s.list(ctx, mine+` ORDER BY created_at DESC, id LIMIT $3 OFFSET $4`, endpoint, user, limit, offset)
	return list, total, err
}

// Ahead counts the builds that wait for the same workers and are older.
func (s Store) Ahead(ctx context.Context, r Record) (int32, error) {
	c := r.Kind()
	return s.count(ctx, `state = 'PENDING' AND started_at = 0 AND engine = $1 AND architecture = $2 AND created_at < $3`,
		c.Engine, c.Architecture, sqldb.Micros(r.Created))
}

// Published reads the builds whose jobs are on the bus, or with a worker.
func (s Store) Published(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND published_at > 0`)
}

// OpenIndexes reads the indexes that are not made yet.
func (s Store) OpenIndexes(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine = $1`, engine.Index)
}

// MadeOfOthers reads the builds under way that may be made from others.
func (s Store) MadeOfOthers(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine IN ($1, $2)`, engine.Index, engine.Sif)
}

// Untaken reads the builds from before a moment that no worker has taken.
func (s Store) Untaken(ctx context.Context, before time.Time) ([]Record, error) {
	return s.list(ctx, `state = 'PENDING' AND started_at = 0 AND engine <> $1 AND created_at < $2`, engine.Index, sqldb.Micros(before))
}

// inView is how many waiting builds of one owner the dispatcher looks at: it never
// gives out more at a time, and one owner's long queue does not hide the others'.
const inView = 50

// FirstOfEach are the builds that wait, the first of each owner.
func (s Store) FirstOfEach(ctx context.Context) ([]Record, error) {
	return s.list(ctx, `id IN (
		SELECT id FROM (
			SELECT id, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY created_at, id) AS place
			FROM build_builds WHERE state = 'PENDING' AND published_at = 0 AND engine <> $1
		) AS queue WHERE place <= $2)
		ORDER BY created_at, id LIMIT 2000`, engine.Index, inView)
}

// Unfinished is how many builds wait and run, and since when the oldest waits.
type Unfinished struct {
	Queued, Running int64
	Oldest          time.Time // zero where none waits
}

// Unfinished counts the builds that have not ended, by what has to make them.
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

// MarkPublished notes that the bus has a build's job, as it was read: a worker may be
// so quick that the build waits again by now, for its next job.
func (s Store) MarkPublished(ctx context.Context, r Record, now time.Time) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = $3 WHERE id = $1 AND state = 'PENDING' AND publications = $2`,
		r.ID, r.Publications, sqldb.Micros(now))
	return err
}

// Unpublish lets a build wait again, as it was read: its job is no longer on the bus.
// Another replica may have done so already, and published the next.
func (s Store) Unpublish(ctx context.Context, r Record) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0
		WHERE id = $1 AND state = 'PENDING' AND publications = $2`, r.ID, r.Publications)
	return err
}

// Reroute is Release for a build that another engine has to go on with: it waits anew,
// and its time runs when that one takes it.
func (s Store) Reroute(ctx context.Context, id string, req *buildv1.SubmitBuildRequest) error {
	raw, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, `
		UPDATE build_builds SET engine = $2, architecture = $3, request = $4,
			published_at = 0, publications = publications + 1, delivery = 0, ticket = '', started_at = 0
		WHERE id = $1 AND state = 'PENDING'`, id, req.GetRecipe().GetEngine(), engine.KindOf(req.GetRecipe()).Architecture, raw)
	return err
}

// Release is Unpublish for a build whose worker gave it back: its ticket was on the
// bus, and is good for nothing any more.
func (s Store) Release(ctx context.Context, id string) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0, ticket = ''
		WHERE id = $1 AND state = 'PENDING'`, id)
	return err
}

// Take notes that a delivery was taken; false when the build has ended, or a
// later delivery was taken already.
func (s Store) Take(ctx context.Context, id string, delivery int64, worker, ticket string, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET delivery = $2, worker = $3, ticket = $4, started_at = CASE WHEN started_at = 0 THEN $5 ELSE started_at END
		WHERE id = $1 AND state = 'PENDING' AND delivery <= $2`,
		id, delivery, worker, ticket, sqldb.Micros(now))
}

// Complete ends a build; false when it had ended, or the result is a failure of
// a delivery that is not the newest. The ticket stays, and is good for nothing.
func (s Store) Complete(ctx context.Context, r *buildv1.Result, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET state = 'COMPLETED', completed_at = $2, succeeded = $3, reason = $4, message = $5, digest = $6
		WHERE id = $1 AND state = 'PENDING' AND ($3 OR delivery <= $7)`,
		r.GetBuildId(), sqldb.Micros(now), r.GetSucceeded(), r.GetReason(), r.GetMessage(), r.GetDigest(), r.GetDelivery())
}

// RemoveEnded removes the builds that ended before a moment, with what they left.
func (s Store) RemoveEnded(ctx context.Context, before time.Time) error {
	at := sqldb.Micros(before)
	_, err1 := s.change(ctx, `DELETE FROM build_logs WHERE build_id IN
		(SELECT id FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1)`, at)
	_, err2 := s.change(ctx, `DELETE FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1`, at)
	_, err3 := s.change(ctx, `DELETE FROM build_caches WHERE noted_at < $1`, at)
	return errors.Join(err1, err2, err3)
}
