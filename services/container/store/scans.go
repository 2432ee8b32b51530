package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A Scan is a row of container_scans: the scan of one request.
type Scan struct {
	ID string
	// Request is the id of the request, and Build that of the build of its image; "" for none.
	Request, Build string
	// Content is the key of the findings, and Digest what the reference of the image resolved to. Both are ""
	// until the image exists.
	Content, Digest string
	// Problem states why there is nothing to scan; "" for none.
	Problem string
	Created time.Time
}

// Findings is a row of container_findings: what was found in the content of an image.
type Findings struct {
	Content string
	// Version is the version of the database, and VersionAt the time of its newest record.
	Version         string
	VersionAt       time.Time
	State           string
	Repeated        bool
	Client          string
	Request, Digest string
	// Started and Ended are zero until then.
	Started, Ended time.Time
	// Due is until when the row is claimed.
	Due    time.Time
	Claims int64
	// Result is nil unless it was read with the row.
	Result *containerv1.ScanResult
}

// The states of findings.
const (
	ScanPending = "pending"
	ScanDone    = "done"
	ScanFailed  = "failed"
)

// unknownScan returns the fault for a scan that does not exist.
func unknownScan(cause error) error {
	return fault.NotFound.New("There is no such scan, or it was deleted with its request", cause)
}

// PutScan stores the scan of a request, unless there is one. due is when its image is looked up.
func (s Store) PutScan(ctx context.Context, r Scan, due time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_scans (id, request_id, build_id, content, digest, problem, created_at, due_at) VALUES ($1, $2, $3, '', '', '', $4, $5)
		ON CONFLICT DO NOTHING`, r.ID, r.Request, r.Build, sqldb.Micros(r.Created), sqldb.Micros(due))
	return err
}

const scanColumns = `id, request_id, build_id, content, digest, problem, created_at`

func scannedScan(row interface{ Scan(into ...any) error }) (r Scan, err error) {
	err = row.Scan(&r.ID, &r.Request, &r.Build, &r.Content, &r.Digest, &r.Problem, sqldb.ScanTime(&r.Created))
	if errors.Is(err, sql.ErrNoRows) {
		err = unknownScan(err)
	}
	return r, err
}

func scannedScans(rows *sql.Rows) (Scan, error) { return scannedScan(rows) }

// Scan returns a scan by its id.
func (s Store) Scan(ctx context.Context, id string) (Scan, error) {
	return scannedScan(s.db.QueryRowContext(ctx, `SELECT `+scanColumns+` FROM container_scans WHERE id = $1`, id))
}

// ScanOf returns the scan of a request, or fault.NotFound.
func (s Store) ScanOf(ctx context.Context, request string) (Scan, error) {
	return scannedScan(s.db.QueryRowContext(ctx, `SELECT `+scanColumns+` FROM container_scans WHERE request_id = $1`, request))
}

// ScanOfBuild returns the scan of a user's newest request with one for the result of a build, or fault.NotFound.
func (s Store) ScanOfBuild(ctx context.Context, build string, who *platformv1.Identity) (Scan, error) {
	return scannedScan(s.db.QueryRowContext(ctx, `
		SELECT s.id, s.request_id, s.build_id, s.content, s.digest, s.problem, s.created_at
		FROM container_requests r JOIN container_scans s ON s.request_id = r.id
		WHERE r.build_id = $1 AND r.build_id <> '' AND r.endpoint = $2 AND r.endpoint <> '' AND r.user_id = $3
			AND (r.workspace_id = $4 OR $4 = 0) AND (r.restriction = $5 OR $5 = '')
		ORDER BY r.created_at DESC, r.id LIMIT 1`, build, who.GetEndpoint(), who.GetUserId(), who.GetWorkspaceId(), caller.Of(who).Restriction()))
}

// DueScans returns scans whose image must be looked up, and postpones them until next, so that other replicas do
// not look it up as well.
func (s Store) DueScans(ctx context.Context, now, next time.Time, most int) ([]Scan, error) {
	list, err := sqldb.Listing[Scan]{Scan: scannedScans, Read: `
		SELECT ` + scanColumns + ` FROM container_scans WHERE due_at > 0 AND due_at <= $1 ORDER BY due_at LIMIT $2`,
	}.All(ctx, s.db, sqldb.Micros(now), most)
	if err != nil {
		return nil, err
	}
	var mine []Scan
	for _, r := range list {
		res, err := s.db.ExecContext(ctx, `UPDATE container_scans SET due_at = $3 WHERE id = $1 AND due_at > 0 AND due_at <= $2`, r.ID, sqldb.Micros(now), sqldb.Micros(next))
		ok, err := s.db.Changed(res, err)
		if err != nil {
			return nil, err
		}
		if ok {
			mine = append(mine, r)
		}
	}
	return mine, nil
}

// WakeScans makes the scans due that wait for a build.
func (s Store) WakeScans(ctx context.Context, build string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_scans SET due_at = $2 WHERE build_id = $1 AND due_at > $2`, build, sqldb.Micros(now))
	return err
}

// WakeScan makes a scan due that waits for its image.
func (s Store) WakeScan(ctx context.Context, id string, now time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_scans SET due_at = $2 WHERE id = $1 AND due_at > $2`, id, sqldb.Micros(now))
	return err
}

// EndScan records that the image of a scan will never exist.
func (s Store) EndScan(ctx context.Context, id, problem string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE container_scans SET problem = $2, due_at = 0 WHERE id = $1`, id, problem)
	return err
}

// LinkScan records the content of the image of a scan.
func (s Store) LinkScan(ctx context.Context, id, content, digest string) error {
	_, err := s.db.ExecContext(ctx, `
		UPDATE container_scans SET content = $2, digest = $3, problem = '', due_at = 0 WHERE id = $1 AND (content <> $2 OR due_at > 0)`, id, content, digest)
	return err
}

// PutFindings stores a pending scan of content with a version of the database, unless there is one. A scan that
// failed before since is tried again.
func (s Store) PutFindings(ctx context.Context, f Findings, now, since time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		INSERT INTO container_findings (content, version, version_at, state, repeated, client, request_id, digest, created_at, started_at, ended_at, due_at, claims, result)
		VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, 0, 0, $8, 0, $9)
		ON CONFLICT (content, version) DO UPDATE SET state = 'pending', due_at = excluded.due_at, claims = 0, ended_at = 0, request_id = excluded.request_id, client = excluded.client
		WHERE container_findings.state = 'failed' AND container_findings.ended_at < $10`,
		f.Content, f.Version, sqldb.Micros(f.VersionAt), f.Repeated, f.Client, f.Request, f.Digest, sqldb.Micros(now), []byte{}, sqldb.Micros(since))
	return err
}

const findingsColumns = `content, version, version_at, state, repeated, client, request_id, digest, started_at, ended_at, due_at, claims`

func (f *Findings) columns() []any {
	return []any{
		&f.Content, &f.Version, sqldb.ScanTime(&f.VersionAt), &f.State, &f.Repeated, &f.Client, &f.Request, &f.Digest,
		sqldb.ScanTime(&f.Started), sqldb.ScanTime(&f.Ended), sqldb.ScanTime(&f.Due), &f.Claims,
	}
}

// FindingsOf returns the newest result for content: that of a scan that has ended, with its result; otherwise a
// pending or failed one. It returns fault.NotFound without findings.
func (s Store) FindingsOf(ctx context.Context, content string) (Findings, error) {
	return s.findings(ctx, `WHERE content = $1 ORDER BY CASE WHEN state = 'done' THEN 0 WHEN state = 'pending' THEN 1 ELSE 2 END, version_at DESC, ended_at DESC LIMIT 1`, content)
}

func (s Store) findings(ctx context.Context, where string, args ...any) (Findings, error) {
	f := Findings{Result: &containerv1.ScanResult{}}
	var packed []byte
	err := s.db.QueryRowContext(ctx, `SELECT `+findingsColumns+`, result FROM container_findings `+where, args...).Scan(append(f.columns(), &packed)...)
	if errors.Is(err, sql.ErrNoRows) {
		return f, unknownScan(err)
	}
	if err != nil || len(packed) == 0 {
		return f, err
	}
	return f, sqldb.Unpack(packed, limits.ScanResult, f.Result)
}

// ClaimFindings claims a pending scan until a time. It prefers clients with few running scans, and scans that are
// not repeated. ok is false without one.
func (s Store) ClaimFindings(ctx context.Context, now, until time.Time) (f Findings, ok bool, err error) {
	list, err := sqldb.Listing[Findings]{Scan: func(rows *sql.Rows) (f Findings, err error) {
		return f, rows.Scan(f.columns()...)
	}, Read: `
		SELECT ` + findingsColumns + ` FROM (
			SELECT ` + findingsColumns + `, row_number() OVER (PARTITION BY client, repeated ORDER BY created_at, content) AS place,
				(SELECT count(*) FROM container_findings r WHERE r.state = 'pending' AND r.due_at > $1 AND r.claims > 0 AND r.client = container_findings.client) AS running
			FROM container_findings WHERE state = 'pending' AND due_at <= $1
		) AS due WHERE place <= 2 AND running < $2 ORDER BY repeated, running, place, random() LIMIT 10`,
	}.All(ctx, s.db, sqldb.Micros(now), limits.ScansAtOnceClient)
	if err != nil {
		return Findings{}, false, err
	}
	for _, f := range list {
		res, err := s.db.ExecContext(ctx, `
			UPDATE container_findings SET due_at = $3, claims = claims + 1, started_at = $5
			WHERE content = $1 AND version = $2 AND state = 'pending' AND claims = $4 AND due_at <= $5`,
			f.Content, f.Version, sqldb.Micros(until), f.Claims, sqldb.Micros(now))
		if ok, err := s.db.Changed(res, err); err != nil || ok {
			f.Claims++
			f.Started, f.Due = now, until
			return f, err == nil, err
		}
	}
	return Findings{}, false, nil
}

// PostponeFindings extends a claim, or ends it so that the scan is tried again from due. It returns whether the
// claim is still held.
func (s Store) PostponeFindings(ctx context.Context, f Findings, due time.Time) (bool, error) {
	res, err := s.db.ExecContext(ctx, `UPDATE container_findings SET due_at = $4 WHERE content = $1 AND version = $2 AND claims = $3 AND state = 'pending'`,
		f.Content, f.Version, f.Claims, sqldb.Micros(due))
	return s.db.Changed(res, err)
}

// EndFindings stores the result of a claimed scan: it is done, or failed if the result has a problem. It deletes
// results of older databases. It returns whether the claim was still held.
func (s Store) EndFindings(ctx context.Context, f Findings, now time.Time) (bool, error) {
	packed, err := sqldb.Pack(f.Result)
	if err != nil {
		return false, err
	}
	state := ScanDone
	if f.Result.GetProblem() != "" {
		state = ScanFailed
	}
	held := false
	err = s.db.Tx(ctx, func(t *sql.Tx) error {
		res, err := t.ExecContext(ctx, `
			UPDATE container_findings SET state = $4, ended_at = $5, result = $6 WHERE content = $1 AND version = $2 AND claims = $3 AND state = 'pending'`,
			f.Content, f.Version, f.Claims, state, sqldb.Micros(now), packed)
		if held, err = s.db.Changed(res, err); err != nil || !held || state == ScanFailed {
			return err
		}
		_, err = t.ExecContext(ctx, `DELETE FROM container_findings WHERE content = $1 AND version <> $2 AND version_at <= $3 AND state <> 'pending'`, f.Content, f.Version, sqldb.Micros(f.VersionAt))
		return err
	})
	return held, err
}

// DropFindings deletes a claimed scan that no valid request needs.
func (s Store) DropFindings(ctx context.Context, f Findings) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM container_findings WHERE content = $1 AND version = $2 AND claims = $3 AND state = 'pending'`, f.Content, f.Version, f.Claims)
	return err
}

// live selects the requests with scans whose names are valid at $2.
const live = ` FROM container_scans s JOIN container_requests r ON r.id = s.request_id WHERE r.expires_at > $2 AND r.revoked_at = 0`

// ScannedBy returns valid requests for content, the newest first.
func (s Store) ScannedBy(ctx context.Context, content string, now time.Time, most int) ([]Record, error) {
	return sqldb.Listing[Record]{Scan: scannedRow, Read: `
		SELECT r.id, r.created_at, r.expires_at, r.revoked_at, r.request, r.plan, r.client_ip` + live + ` AND s.content = $1 ORDER BY r.created_at DESC LIMIT $3`,
	}.All(ctx, s.db, content, sqldb.Micros(now), most)
}

// A Repetition is content that was not scanned with a version of the database.
type Repetition struct{ Content, Request, Digest string }

// Repetitions returns content of valid requests that was scanned, but not with a version of the database; the newest
// request of each. Scans with the version that failed after a time are not repeated yet.
func (s Store) Repetitions(ctx context.Context, version string, now, failed time.Time, most int) ([]Repetition, error) {
	return sqldb.Listing[Repetition]{Scan: func(rows *sql.Rows) (r Repetition, err error) {
		return r, rows.Scan(&r.Content, &r.Request, &r.Digest)
	}, Read: `
		SELECT content, request_id, digest FROM (
			SELECT s.content, s.request_id, s.digest, row_number() OVER (PARTITION BY s.content ORDER BY r.created_at DESC) AS place` + live + ` AND s.content <> ''
				AND NOT EXISTS (SELECT 1 FROM container_findings f WHERE f.content = s.content
					AND (f.version = $1 AND (f.state <> 'failed' OR f.ended_at > $3) OR f.state = 'pending'))
		) AS due WHERE place = 1 ORDER BY content LIMIT $4`,
	}.All(ctx, s.db, version, sqldb.Micros(now), sqldb.Micros(failed), most)
}

// PendingScans returns the number of pending scans, and how many of them are repeated.
func (s Store) PendingScans(ctx context.Context) (all, repeated int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CASE WHEN repeated THEN 1 ELSE 0 END), 0) FROM container_findings WHERE state = 'pending'`).Scan(&all, &repeated)
	return all, repeated, err
}

// DeleteScans deletes up to limits.RequestsDeleted scans from before a time whose requests were deleted, and findings
// from before that time that no scan needs.
func (s Store) DeleteScans(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `
		DELETE FROM container_scans WHERE id IN (
			SELECT s.id FROM container_scans s LEFT JOIN container_requests r ON r.id = s.request_id WHERE r.id IS NULL AND s.created_at < $1 LIMIT $2)`,
		sqldb.Micros(before), limits.RequestsDeleted)
	if err != nil {
		return err
	}
	_, err = s.db.ExecContext(ctx, `
		DELETE FROM container_findings WHERE created_at < $1 AND NOT EXISTS (SELECT 1 FROM container_scans s WHERE s.content = container_findings.content)`, sqldb.Micros(before))
	return err
}
