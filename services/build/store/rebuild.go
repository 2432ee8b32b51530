package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/bus/eventbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// States of a rebuild.
const (
	RebuildWaiting     = "WAITING"
	RebuildRunning     = "RUNNING"
	RebuildSame        = "SAME"        // the bytes are equal
	RebuildDifferent   = "DIFFERENT"   // the bytes differ
	RebuildUnavailable = "UNAVAILABLE" // its inputs do not exist any more
	RebuildAbandoned   = "ABANDONED"   // no other worker could make it
)

// A Rebuild is a build that another worker makes again: a row of build_rebuilds.
type Rebuild struct {
	BuildID, State string
	// Times are zero until the event.
	Created, Taken, Ended, Acknowledged time.Time
	Attempts                            int
	Image                               string
	// FirstWorker pushed the image with FirstDigest. Worker made Digest from the same inputs.
	FirstWorker, FirstDigest string
	Worker, Digest           string
	// Message states why nothing was compared.
	Message string
	// Records are the layers that differ, as JSON.
	Records string
}

const rebuildColumns = `build_id, state, created_at, taken_at, ended_at, acknowledged_at, attempts, image, first_worker, first_digest, worker, digest, message, records`

func scanRebuild(row interface{ Scan(dest ...any) error }) (r Rebuild, err error) {
	err = row.Scan(&r.BuildID, &r.State, sqldb.ScanTime(&r.Created), sqldb.ScanTime(&r.Taken), sqldb.ScanTime(&r.Ended), sqldb.ScanTime(&r.Acknowledged),
		&r.Attempts, &r.Image, &r.FirstWorker, &r.FirstDigest, &r.Worker, &r.Digest, &r.Message, &r.Records)
	if errors.Is(err, sql.ErrNoRows) {
		return r, fault.NotFound.New("There is no such rebuild", err)
	}
	return r, err
}

// rebuild returns the first rebuild that matches a condition, or fault.NotFound.
func (s Store) rebuild(ctx context.Context, where string, args ...any) (Rebuild, error) {
	return scanRebuild(s.db.PreparedRow(ctx, `SELECT `+rebuildColumns+` FROM build_rebuilds WHERE `+where, args...))
}

func (s Store) rebuilds(ctx context.Context, where string, args ...any) ([]Rebuild, error) {
	return sqldb.Listing[Rebuild]{
		Read: `SELECT ` + rebuildColumns + ` FROM build_rebuilds WHERE ` + where,
		Scan: func(rows *sql.Rows) (Rebuild, error) { return scanRebuild(rows) },
	}.All(ctx, s.db, args...)
}

// RebuildSecret returns the key that selects builds, which is the same in every replica.
func (s Store) RebuildSecret(ctx context.Context) (secret []byte, err error) {
	const read = `SELECT secret FROM build_rebuild_key WHERE id = 1`
	err = s.db.QueryRowContext(ctx, read).Scan(&secret)
	if !errors.Is(err, sql.ErrNoRows) {
		return secret, err
	}
	secret = make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	if _, err := s.db.ExecContext(ctx, `INSERT INTO build_rebuild_key (id, secret) VALUES (1, $1) ON CONFLICT DO NOTHING`, secret); err != nil {
		return nil, err
	}
	err = s.db.QueryRowContext(ctx, read).Scan(&secret) // another replica may have been faster
	return secret, err
}

// addRebuild adds a rebuild of a build of Conda packages that has just succeeded. It returns false
// if too many wait, of all owners or of this one.
func addRebuild(ctx context.Context, tx *sql.Tx, id, layers string, now time.Time) (bool, error) {
	n, err := affected(tx.ExecContext(ctx, `
		INSERT INTO build_rebuilds (build_id, state, created_at, retry_at, taken_at, lease_until, ended_at, acknowledged_at, attempts, layers, image,
			first_worker, first_digest, worker, digest, ticket, message, records)
		SELECT id, '`+RebuildWaiting+`', CAST($2 AS bigint), 0, 0, 0, 0, 0, 0, $6, target, worker, digest, '', '', '', '', '' FROM build_builds b
		WHERE id = $1 AND engine = $3 AND worker <> ''
			AND (SELECT COUNT(*) FROM build_rebuilds WHERE ended_at = 0) < $4
			AND (SELECT COUNT(*) FROM build_rebuilds r JOIN build_builds o ON o.id = r.build_id WHERE r.ended_at = 0 AND o.owner = b.owner) < $5
		ON CONFLICT DO NOTHING`, id, sqldb.Micros(now), engine.Conda, limits.Rebuilds, limits.RebuildsOfOwner, layers))
	return n > 0, err
}

// A RebuildWorker is a worker that requests a rebuild.
type RebuildWorker struct {
	Name string
	// Machine is the pattern, for LIKE, of the names that the worker has after restarts; "" for none.
	Machine string
	// Layers is the version of the layers that are made now.
	Layers string
}

// NextRebuild returns the waiting rebuild that a worker is to take: the first of the owner with the
// fewest rebuilds before it. It returns fault.NotFound if the worker had a part in the images of all of
// them. It returns none to a revoked worker, none that was built with other versions of layers, and
// only one at a time to each worker. All names that match w.Machine count as the same worker.
func (s Store) NextRebuild(ctx context.Context, w RebuildWorker, now time.Time) (id string, err error) {
	err = s.db.PreparedRow(ctx, `
		SELECT build_id FROM (
			SELECT r.build_id, r.created_at, ROW_NUMBER() OVER (PARTITION BY b.owner ORDER BY r.created_at, r.build_id) AS place
			FROM build_rebuilds r JOIN build_builds b ON b.id = r.build_id
			WHERE r.ended_at = 0 AND r.state = '`+RebuildWaiting+`' AND r.retry_at <= $2 AND r.layers = $4 AND b.succeeded AND r.first_worker <> $1 AND r.first_worker NOT LIKE $3
				AND NOT EXISTS (SELECT 1 FROM build_makers m WHERE m.build_id = r.build_id AND (m.worker = $1 OR m.worker LIKE $3))
				AND NOT EXISTS (SELECT 1 FROM build_workers k WHERE k.worker = $1 AND k.revoked_at > 0)
				AND NOT EXISTS (SELECT 1 FROM build_rebuilds o WHERE o.ended_at = 0 AND o.state = '`+RebuildRunning+`' AND (o.worker = $1 OR o.worker LIKE $3))
		) AS queue ORDER BY place, created_at, build_id LIMIT 1`, w.Name, sqldb.Micros(now), w.Machine, w.Layers).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", fault.NotFound.New("No rebuild waits for this worker", err)
	}
	return id, err
}

// TakeRebuild records that a worker has a rebuild until the lease ends. It returns false if another
// worker was faster, or if limit rebuilds are running.
func (s Store) TakeRebuild(ctx context.Context, id, worker, ticket string, limit int, now, lease time.Time) (bool, error) {
	return s.change(ctx, `
		UPDATE build_rebuilds SET state = '`+RebuildRunning+`', worker = $2, ticket = $3, taken_at = $4, lease_until = $5, attempts = attempts + 1
		WHERE build_id = $1 AND state = '`+RebuildWaiting+`' AND retry_at <= $4
			AND (SELECT COUNT(*) FROM build_rebuilds WHERE ended_at = 0 AND state = '`+RebuildRunning+`') < $6`,
		id, worker, ticket, sqldb.Micros(now), sqldb.Micros(lease), limit)
}

// RenewRebuild extends a lease. It returns false if the ticket is no longer valid.
func (s Store) RenewRebuild(ctx context.Context, ticket string, lease time.Time) (bool, error) {
	return s.change(ctx, `UPDATE build_rebuilds SET lease_until = $2 WHERE ticket = $1 AND ticket <> '' AND state = '`+RebuildRunning+`'`, ticket, sqldb.Micros(lease))
}

// RebuildByTicket returns the running rebuild with the ticket with a hash, or fault.NotFound.
func (s Store) RebuildByTicket(ctx context.Context, hash string) (Rebuild, error) {
	return s.rebuild(ctx, `ticket = $1 AND ticket <> '' AND state = '`+RebuildRunning+`'`, hash)
}

// EndRebuild ends a running rebuild with the state, digest, message and records of r, and adds the
// event of it. It returns false if the ticket is no longer valid, so that a result counts once.
func (s Store) EndRebuild(ctx context.Context, ticket string, r Rebuild, now time.Time) (ended bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n, err := affected(tx.ExecContext(ctx, `
			UPDATE build_rebuilds SET state = $3, digest = $4, message = $5, records = $6, ended_at = $7, ticket = '', lease_until = 0
			WHERE build_id = $1 AND ticket = $2 AND ticket <> '' AND state = '`+RebuildRunning+`'`,
			r.BuildID, ticket, r.State, r.Digest, r.Message, r.Records, sqldb.Micros(now)))
		if ended = n > 0; err != nil || !ended {
			return err
		}
		kind := map[string]string{RebuildSame: eventbus.BuildVerified, RebuildDifferent: eventbus.BuildVerificationFailed}[r.State]
		if kind == "" {
			return nil
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO build_events (build_id, type, at) SELECT id, CAST($2 AS text), CAST($3 AS bigint) FROM build_builds WHERE id = $1
			ON CONFLICT DO NOTHING`, r.BuildID, kind, sqldb.Micros(now))
		return err
	})
	return ended, err
}

// RepeatRebuild lets a running rebuild wait for another attempt at the given time. If counted is not
// set, the attempt does not count. It returns false if the ticket is no longer valid.
func (s Store) RepeatRebuild(ctx context.Context, ticket, message string, counted bool, at time.Time) (bool, error) {
	n := 1
	if counted {
		n = 0
	}
	return s.change(ctx, `
		UPDATE build_rebuilds SET state = '`+RebuildWaiting+`', ticket = '', lease_until = 0, message = $2, retry_at = $3, attempts = attempts - $4
		WHERE ticket = $1 AND ticket <> '' AND state = '`+RebuildRunning+`'`, ticket, message, sqldb.Micros(at), n)
}

// ReleaseLostRebuilds lets rebuilds whose lease has ended wait for another attempt.
func (s Store) ReleaseLostRebuilds(ctx context.Context, now time.Time) error {
	_, err := s.change(ctx, `
		UPDATE build_rebuilds SET state = '`+RebuildWaiting+`', ticket = '', lease_until = 0, message = 'The worker did not report a result'
		WHERE ended_at = 0 AND state = '`+RebuildRunning+`' AND lease_until < $1`, sqldb.Micros(now))
	return err
}

// StaleRebuilds returns the waiting rebuilds that must end: those that wait since a time before the
// given one, that have had the maximum number of attempts, or whose image no longer counts.
func (s Store) StaleRebuilds(ctx context.Context, before time.Time) ([]Rebuild, error) {
	return s.rebuilds(ctx, `ended_at = 0 AND state = '`+RebuildWaiting+`' AND (created_at < $1 OR attempts >= $2
		OR NOT EXISTS (SELECT 1 FROM build_builds b WHERE b.id = build_id AND b.succeeded)) ORDER BY created_at, build_id`, sqldb.Micros(before), limits.RebuildTries)
}

// Succeeded returns a build whose image counts, or fault.NotFound.
func (s Store) Succeeded(ctx context.Context, id string) (Record, error) {
	return s.one(ctx, `id = $1 AND succeeded`, id)
}

// AbandonRebuild ends a waiting rebuild. It returns false if a worker took it meanwhile.
func (s Store) AbandonRebuild(ctx context.Context, id, state, message string, now time.Time) (bool, error) {
	return s.change(ctx, `UPDATE build_rebuilds SET state = $2, message = $3, ended_at = $4 WHERE build_id = $1 AND state = '`+RebuildWaiting+`'`,
		id, state, message, sqldb.Micros(now))
}

// SameRebuild returns the first rebuild that made the bytes of a manifest again, of the builds of a
// content in a scope; or fault.NotFound.
func (s Store) SameRebuild(ctx context.Context, contentDigest, scope, digest string) (Rebuild, error) {
	return s.rebuild(ctx, `state = '`+RebuildSame+`' AND NOT EXISTS (SELECT 1 FROM build_workers k WHERE k.worker = build_rebuilds.worker AND k.revoked_at > 0) AND first_digest = $4 AND build_id IN (
			SELECT id FROM build_builds WHERE content_id = $1 AND content_digest = $2 AND scope = $3 AND digest = $4 AND succeeded)
		ORDER BY ended_at, build_id LIMIT 1`, contentDigest[:16], contentDigest, scope, digest)
}

// Rebuilds returns rebuilds: differences that are not acknowledged, then the newest. If all is not set, it only returns differences that
// are not acknowledged, and rebuilds that have not ended.
func (s Store) Rebuilds(ctx context.Context, all bool, limit int) ([]Rebuild, error) {
	where := `(ended_at = 0 OR state = '` + RebuildDifferent + `' AND acknowledged_at = 0)`
	if all {
		where = `build_id <> ''`
	}
	return s.rebuilds(ctx, where+` ORDER BY CASE WHEN state = '`+RebuildDifferent+`' AND acknowledged_at = 0 THEN 0 ELSE 1 END, created_at DESC, build_id LIMIT $1`, limit)
}

// Rebuild returns the rebuild of a build, or fault.NotFound.
func (s Store) Rebuild(ctx context.Context, id string) (Rebuild, error) {
	return s.rebuild(ctx, `build_id = $1`, id)
}

// AcknowledgeRebuild records that an operator has seen a difference. It returns false if there is no
// such difference.
func (s Store) AcknowledgeRebuild(ctx context.Context, id string, now time.Time) (bool, error) {
	return s.change(ctx, `UPDATE build_rebuilds SET acknowledged_at = CASE WHEN acknowledged_at = 0 THEN CAST($2 AS bigint) ELSE acknowledged_at END
		WHERE build_id = $1 AND state = '`+RebuildDifferent+`'`, id, sqldb.Micros(now))
}

// BuildsWait reports whether builds of packages were sent to the workers before a time, and no worker
// has taken them.
func (s Store) BuildsWait(ctx context.Context, before time.Time) (bool, error) {
	n, err := s.count(ctx, `state = 'PENDING' AND engine = $1 AND started_at = 0 AND published_at > 0 AND published_at < $2`, engine.Conda, sqldb.Micros(before))
	return n > 0, err
}

// CountRebuilds counts the waiting and running rebuilds, and the differences that are not
// acknowledged, by state.
func (s Store) CountRebuilds(ctx context.Context) (map[string]int64, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT state, COUNT(*) FROM build_rebuilds
		WHERE ended_at = 0 OR state = '`+RebuildDifferent+`' AND acknowledged_at = 0 GROUP BY state`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, err
		}
		out[state] = n
	}
	return out, rows.Err()
}

// RemoveRebuilds deletes the rebuilds whose build was deleted, except differences: the newest
// limits.RebuildAlarms of these are stored, and none that was found before the given time.
func (s Store) RemoveRebuilds(ctx context.Context, before time.Time) error {
	_, err1 := s.change(ctx, `DELETE FROM build_rebuilds WHERE ended_at > 0 AND state <> '`+RebuildDifferent+`' AND NOT EXISTS (SELECT 1 FROM build_builds b WHERE b.id = build_id)`)
	_, err2 := s.change(ctx, `DELETE FROM build_rebuilds WHERE state = '`+RebuildDifferent+`' AND (ended_at < $1 OR build_id NOT IN (
		SELECT build_id FROM build_rebuilds WHERE state = '`+RebuildDifferent+`' ORDER BY ended_at DESC, build_id LIMIT $2))`, sqldb.Micros(before), limits.RebuildAlarms)
	return errors.Join(err1, err2)
}

// forgetRebuilds deletes what a revoked worker has confirmed, and lets the rebuilds that it has wait
// for another worker.
func forgetRebuilds(ctx context.Context, tx *sql.Tx, name string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM build_rebuilds WHERE state = '`+RebuildSame+`' AND `+takenBy, name); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE build_rebuilds SET state = '`+RebuildWaiting+`', ticket = '', lease_until = 0
		WHERE state = '`+RebuildRunning+`' AND `+takenBy, name)
	return err
}

// CompleteSelected is Complete for a build that another worker is to make again. The result selected
// is false if too many of these wait.
func (s Store) CompleteSelected(ctx context.Context, r *buildv1.Result, layers string, now time.Time) (ended, selected bool, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		if ended, err = complete(ctx, tx, r, now); err != nil || !ended || !r.GetSucceeded() {
			return err
		}
		selected, err = addRebuild(ctx, tx, r.GetBuildId(), layers, now)
		return err
	})
	return ended, selected, err
}
