package build

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/sqldb"
)

// What the room asks about builds and what moves them on: all of it by conditional
// updates, so that any replica may do any of it.

// pending is the build that makes an image just now.
func (s store) pending(ctx context.Context, target, scope string) (record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'PENDING'`, target, scope)
}

// made is the newest build that made an image.
func (s store) made(ctx context.Context, target, scope string) (record, error) {
	return s.one(ctx, `target = $1 AND scope = $2 AND state = 'COMPLETED' AND succeeded ORDER BY number DESC LIMIT 1`, target, scope)
}

// byTicket is the build whose newest delivery has a ticket.
func (s store) byTicket(ctx context.Context, hash string) (record, error) {
	return s.one(ctx, `ticket = $1 AND ticket <> '' AND state = 'PENDING'`, hash)
}

// ticket is the hash of the newest delivery's ticket, also after the build has ended;
// "" when nobody took it.
func (s store) ticket(ctx context.Context, id string) (hash string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT ticket FROM build_builds WHERE id = $1`, id).Scan(&hash)
	return hash, err
}

// foreign says whether an id is that of a build of another content.
func (s store) foreign(ctx context.Context, id, contentID string) (bool, error) {
	n, err := s.count(ctx, `id = $1 AND content_id <> $2`, id, contentID)
	return n > 0, err
}

// lastNumber is the newest build's number for a content; 0 when there is none.
func (s store) lastNumber(ctx context.Context, contentID string) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(number), 0) FROM build_builds WHERE content_id = $1`, contentID).Scan(&n)
	return n, err
}

// ofUser reads builds of a user at a platform, the newest first, and counts them all.
func (s store) ofUser(ctx context.Context, endpoint string, user int64, limit, offset int) (list []record, total int32, err error) {
	const mine = `endpoint = $1 AND user_id = $2`
	if total, err = s.count(ctx, mine, endpoint, user); err != nil {
		return nil, 0, err
	}
	list, err = s.list(ctx, mine+` ORDER BY created_at DESC, id LIMIT $3 OFFSET $4`, endpoint, user, limit, offset)
	return list, total, err
}

// ahead counts the builds that wait for the same workers and are older.
func (s store) ahead(ctx context.Context, r record) (int32, error) {
	c := capabilityOf(r)
	return s.count(ctx, `state = 'PENDING' AND started_at = 0 AND engine = $1 AND architecture = $2 AND created_at < $3`,
		c.engine, c.architecture, sqldb.Micros(r.created))
}

// published reads the builds whose jobs are on the bus, or with a worker.
func (s store) published(ctx context.Context) ([]record, error) {
	return s.list(ctx, `state = 'PENDING' AND published_at > 0`)
}

// openIndexes reads the indexes that are not made yet.
func (s store) openIndexes(ctx context.Context) ([]record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine = $1`, engineIndex)
}

// madeOfOthers reads the builds under way that may be made from others.
func (s store) madeOfOthers(ctx context.Context) ([]record, error) {
	return s.list(ctx, `state = 'PENDING' AND engine IN ($1, $2)`, engineIndex, engineSif)
}

// untaken reads the builds from before a moment that no worker has taken.
func (s store) untaken(ctx context.Context, before time.Time) ([]record, error) {
	return s.list(ctx, `state = 'PENDING' AND started_at = 0 AND engine <> $1 AND created_at < $2`, engineIndex, sqldb.Micros(before))
}

// inView is how many waiting builds of one owner the dispatcher looks at: it never
// gives out more at a time, and one owner's long queue does not hide the others'.
const inView = 50

// firstOfEach are the builds that wait, the first of each owner.
func (s store) firstOfEach(ctx context.Context) ([]record, error) {
	return s.list(ctx, `id IN (
		SELECT id FROM (
			SELECT id, ROW_NUMBER() OVER (PARTITION BY owner ORDER BY created_at, id) AS place
			FROM build_builds WHERE state = 'PENDING' AND published_at = 0 AND engine <> $1
		) AS queue WHERE place <= $2)
		ORDER BY created_at, id LIMIT 2000`, engineIndex, inView)
}

// unfinished is how many builds wait and run, and since when the oldest waits.
type unfinished struct {
	queued, running int64
	oldest          time.Time
}

func (s store) unfinished(ctx context.Context) (_ map[capability]unfinished, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT engine, architecture, SUM(CASE WHEN started_at = 0 THEN 1 ELSE 0 END),
			SUM(CASE WHEN started_at > 0 THEN 1 ELSE 0 END), COALESCE(MIN(CASE WHEN started_at = 0 THEN created_at END), 0)
		FROM build_builds WHERE state = 'PENDING' AND engine <> $1 GROUP BY engine, architecture`, engineIndex)
	if err != nil {
		return nil, fmt.Errorf("counting builds: %w", err)
	}
	defer rows.Close()
	all := map[capability]unfinished{}
	for rows.Next() {
		var c capability
		var u unfinished
		var oldest int64
		if err := rows.Scan(&c.engine, &c.architecture, &u.queued, &u.running, &oldest); err != nil {
			return nil, fmt.Errorf("counting builds: %w", err)
		}
		u.oldest = sqldb.Time(oldest)
		all[c] = u
	}
	return all, rows.Err()
}

// markPublished notes that the bus has a build's job, as it was read: a worker may be
// so quick that the build waits again by now, for its next job.
func (s store) markPublished(ctx context.Context, r record, now time.Time) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = $3 WHERE id = $1 AND state = 'PENDING' AND publications = $2`,
		r.id, r.publications, sqldb.Micros(now))
	return err
}

// unpublish lets a build wait again, as it was read: its job is no longer on the bus.
// Another replica may have done so already, and published the next.
func (s store) unpublish(ctx context.Context, r record) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0
		WHERE id = $1 AND state = 'PENDING' AND publications = $2`, r.id, r.publications)
	return err
}

// reroute is release for a build that another engine has to go on with: it waits anew,
// and its time runs when that one takes it.
func (s store) reroute(ctx context.Context, id string, req *buildv1.SubmitBuildRequest) error {
	raw, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, `
		UPDATE build_builds SET engine = $2, architecture = $3, request = $4,
			published_at = 0, publications = publications + 1, delivery = 0, ticket = '', started_at = 0
		WHERE id = $1 AND state = 'PENDING'`, id, req.GetRecipe().GetEngine(), architecture(req.GetRecipe()), raw)
	return err
}

// release is unpublish for a build whose worker gave it back: its ticket was on the
// bus, and is good for nothing any more.
func (s store) release(ctx context.Context, id string) error {
	_, err := s.change(ctx, `
		UPDATE build_builds SET published_at = 0, publications = publications + 1, delivery = 0, ticket = ''
		WHERE id = $1 AND state = 'PENDING'`, id)
	return err
}

// take notes that a delivery was taken; false when the build has ended, or a
// later delivery was taken already.
func (s store) take(ctx context.Context, id string, delivery int64, worker, ticket string, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET delivery = $2, worker = $3, ticket = $4, started_at = CASE WHEN started_at = 0 THEN $5 ELSE started_at END
		WHERE id = $1 AND state = 'PENDING' AND delivery <= $2`,
		id, delivery, worker, ticket, sqldb.Micros(now))
}

// complete ends a build; false when it had ended, or the result is a failure of
// a delivery that is not the newest. The ticket stays, and is good for nothing.
func (s store) complete(ctx context.Context, r *buildv1.Result, now time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_builds
		SET state = 'COMPLETED', completed_at = $2, succeeded = $3, reason = $4, message = $5, digest = $6
		WHERE id = $1 AND state = 'PENDING' AND ($3 OR delivery <= $7)`,
		r.GetBuildId(), sqldb.Micros(now), r.GetSucceeded(), r.GetReason(), r.GetMessage(), r.GetDigest(), r.GetDelivery())
}

// removeEnded removes the builds that ended before a moment, with what they left.
func (s store) removeEnded(ctx context.Context, before time.Time) error {
	at := sqldb.Micros(before)
	_, err1 := s.change(ctx, `DELETE FROM build_logs WHERE build_id IN
		(SELECT id FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1)`, at)
	_, err2 := s.change(ctx, `DELETE FROM build_builds WHERE state = 'COMPLETED' AND completed_at < $1`, at)
	_, err3 := s.change(ctx, `DELETE FROM build_caches WHERE noted_at < $1`, at)
	return errors.Join(err1, err2, err3)
}
