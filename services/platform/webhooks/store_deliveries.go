package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// States of deliveries.
const (
	statePending   = "PENDING"
	stateDelivered = "DELIVERED"
	stateFailed    = "FAILED"
)

// A delivery is a row of platform_deliveries.
type delivery struct {
	id       string
	eventID  string
	kind     string
	subject  string
	body     string
	state    string
	created  time.Time
	attempts int
	first    time.Time // this and the next are zero before the first attempt
	last     time.Time
	next     time.Time
	response int    // 0: none
	problem  string // of the last attempt
	took     time.Duration
}

func (d delivery) toProto() *platformv1.Delivery {
	out := &platformv1.Delivery{
		Id: d.id, EventId: d.eventID, Type: d.kind, Subject: d.subject, Status: d.state, Attempts: int32(d.attempts),
		DateCreated: api.Timestamp(d.created), LastAttempt: api.Timestamp(d.last), Response: api.IDValue(int64(d.response)), Problem: api.StringValue(d.problem),
	}
	if d.state == statePending {
		out.NextAttempt = api.Timestamp(d.next)
	}
	if !d.last.IsZero() {
		out.Duration = wrapperspb.Double(float64(d.took.Milliseconds()))
	}
	return out
}

// deliveryColumns are the columns that delivery.scan reads, of platform_deliveries AS d.
const deliveryColumns = `d.id, d.event_id, d.type, d.subject, d.body, d.state, d.created_at, d.attempts, d.first_at, d.last_at, d.next_at,
	d.response, d.problem, d.duration`

func (d *delivery) into() []any {
	return []any{
		&d.id, &d.eventID, &d.kind, &d.subject, &d.body, &d.state, sqldb.ScanTime(&d.created), &d.attempts, sqldb.ScanTime(&d.first), sqldb.ScanTime(&d.last), sqldb.ScanTime(&d.next),
		&d.response, &d.problem, &d.took,
	}
}

func (d *delivery) scan(scan func(...any) error) error {
	err := scan(d.into()...)
	d.took *= time.Microsecond // from microseconds
	return err
}

// errTooMany means that too many messages of a webhook wait.
var errTooMany = errors.New("too many messages of the webhook wait")

// insertDelivery stores a delivery for a webhook, once for each event, and returns it. It returns
// errTooMany if too many others wait.
func (s store) insertDelivery(ctx context.Context, hookID string, d delivery, now time.Time) (delivery, error) {
	d, err := insertIn(ctx, s.db, hookID, d, now)
	if errors.Is(err, errTooMany) {
		return d, err
	}
	return d, s.db.Wrap(err)
}

// insertIn is insertDelivery in a database or a transaction.
func insertIn(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, hookID string, d delivery, now time.Time,
) (delivery, error) {
	var waiting int
	err := db.QueryRowContext(ctx, `
		SELECT count(*) FROM (SELECT 1 FROM platform_deliveries WHERE webhook_id = $1 AND state = 'PENDING' LIMIT $2) AS pending`, hookID, limits.DeliveriesWaiting).Scan(&waiting)
	if err == nil && waiting >= limits.DeliveriesWaiting {
		err = errTooMany
	}
	if err != nil {
		return d, err
	}
	d.id, d.state, d.next = api.NewTextID(22), statePending, now
	_, err = db.ExecContext(ctx, `
		INSERT INTO platform_deliveries (id, webhook_id, event_id, type, subject, body, state, created_at, next_at)
		SELECT $1, id, $3, $4, $5, $6, $7, $8, $9 FROM platform_webhooks WHERE id = $2
		ON CONFLICT DO NOTHING`,
		d.id, hookID, d.eventID, d.kind, d.subject, d.body, d.state, sqldb.Micros(d.created), sqldb.Micros(d.next))
	return d, err
}

// due is a condition for deliveries d of the webhook h that may be sent at the time $1. A delivery
// waits while an earlier one of the same subject is pending, and after failures of the webhook,
// unless it is a test. Nothing is sent for a user who is disabled.
const due = `d.state = 'PENDING' AND d.next_at <= $1 AND d.busy_until <= $1 AND h.disabled_at = 0
	AND NOT EXISTS (SELECT 1 FROM platform_users u WHERE u.id = h.user_id AND u.disabled_at > 0)
	AND (d.type = '` + typeTest + `' OR h.retry_at <= $1 AND NOT EXISTS (SELECT 1 FROM platform_deliveries e
		WHERE e.webhook_id = d.webhook_id AND e.subject = d.subject AND e.state = 'PENDING' AND e.created_at < d.created_at))`

// A dueHook is a webhook with a delivery that is due.
type dueHook struct {
	id        string
	createdBy int64
}

// dueHooks returns webhooks with deliveries that are due, some of each user who has created any, in
// turns. Of those of one user, webhooks that do not fail are first, then those that wait longest.
func (s store) dueHooks(ctx context.Context, now time.Time) ([]dueHook, error) {
	return sqldb.Listing[dueHook]{
		Read: `SELECT id, created_by FROM (
				SELECT h.id, h.created_by, row_number() OVER (PARTITION BY h.created_by
					ORDER BY CASE WHEN h.failures > 0 THEN 1 ELSE 0 END, min(d.next_at), h.id) AS place
				FROM platform_webhooks h JOIN platform_deliveries d ON d.webhook_id = h.id
				WHERE ` + due + ` GROUP BY h.id, h.created_by, h.failures
			) AS due WHERE place <= $2 ORDER BY place LIMIT 1000`,
		Scan: func(r *sql.Rows) (h dueHook, err error) { err = r.Scan(&h.id, &h.createdBy); return h, err },
	}.All(ctx, s.db, sqldb.Micros(now), 2*limits.WebhooksAtOnceUser)
}

// claim takes the next delivery of a webhook that is due, tests first, until a time. The delivery
// has no id if nothing is due.
func (s store) claim(ctx context.Context, hookID string, now, until time.Time) (h hook, d delivery, err error) {
	var events string
	err = s.db.QueryRowContext(ctx, `
		SELECT `+hookColumns+`, `+deliveryColumns+`
		FROM platform_deliveries d JOIN platform_webhooks h ON h.id = d.webhook_id
		WHERE d.webhook_id = $2 AND `+due+`
		ORDER BY CASE WHEN d.type = '`+typeTest+`' THEN 0 ELSE 1 END, d.next_at, d.created_at, d.id LIMIT 1`, sqldb.Micros(now), hookID).Scan(append(h.into(&events), d.into()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return hook{}, delivery{}, nil
	}
	if err != nil {
		return hook{}, delivery{}, s.db.Wrap(err)
	}
	d.took *= time.Microsecond // from microseconds
	taken, err := s.db.Changed(s.db.ExecContext(ctx, `UPDATE platform_deliveries SET busy_until = $2 WHERE id = $1 AND state = 'PENDING' AND busy_until <= $3 AND next_at <= $3`,
		d.id, sqldb.Micros(until), sqldb.Micros(now)))
	if err != nil || !taken {
		return hook{}, delivery{}, err
	}
	return h, d, nil
}

// release returns a claimed delivery, which stays due.
func (s store) release(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE platform_deliveries SET busy_until = 0 WHERE id = $1`, id)
	return s.db.Wrap(err)
}

// attempted sets the columns of an attempt: $2 to $5.
const attempted = `attempts = attempts + 1, busy_until = 0, first_at = CASE WHEN first_at = 0 THEN $2 ELSE first_at END, last_at = $2,
	response = $3, problem = $4, duration = $5`

// delivered stores that a receiver has accepted a message.
func (s store) delivered(ctx context.Context, h hook, id string, a attempt, now time.Time) error {
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		_, err := t.ExecContext(ctx, `UPDATE platform_deliveries SET state = 'DELIVERED', completed_at = $6, `+attempted+` WHERE id = $1 AND state = 'PENDING'`,
			id, sqldb.Micros(a.begun), a.response, "", a.took.Microseconds(), sqldb.Micros(now))
		if err != nil || h.failures == 0 {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE platform_webhooks SET failing_since = 0, failures = 0, retry_at = 0 WHERE id = $1`, h.id)
		return err
	})
}

// failed stores that an attempt failed, when the next one is due, and when other messages are.
// The delivery ends if next is zero.
func (s store) failed(ctx context.Context, h hook, id string, a attempt, next, others time.Time) error {
	var ended time.Time
	if next.IsZero() {
		ended = others
	}
	return s.db.Tx(ctx, func(t *sql.Tx) error {
		_, err := t.ExecContext(ctx, `UPDATE platform_deliveries SET next_at = $6, state = CASE WHEN CAST($7 AS bigint) = 0 THEN state ELSE 'FAILED' END, completed_at = CAST($7 AS bigint), `+attempted+`
			WHERE id = $1 AND state = 'PENDING'`,
			id, sqldb.Micros(a.begun), a.response, a.problem, a.took.Microseconds(), sqldb.Micros(next), sqldb.Micros(ended))
		if err != nil {
			return err
		}
		_, err = t.ExecContext(ctx, `UPDATE platform_webhooks SET failures = failures + 1, retry_at = $3,
			failing_since = CASE WHEN failing_since = 0 THEN $2 ELSE failing_since END WHERE id = $1`, h.id, sqldb.Micros(a.begun), sqldb.Micros(others))
		return err
	})
}

// delivery returns a delivery of a webhook, or fault.NotFound.
func (s store) delivery(ctx context.Context, hookID, id string) (d delivery, err error) {
	err = d.scan(s.db.QueryRowContext(ctx, `SELECT `+deliveryColumns+` FROM platform_deliveries d WHERE d.webhook_id = $1 AND d.id = $2`, hookID, id).Scan)
	return d, s.db.NotFound("delivery", err)
}

// deliveries returns a page of the deliveries of a webhook with a state, without their bodies, the
// newest first, and their number. The state "" means all.
func (s store) deliveries(ctx context.Context, hookID, state string, p sqldb.Page) ([]delivery, int, error) {
	const from = ` FROM platform_deliveries d WHERE d.webhook_id = $1 AND ($2 = '' OR d.state = $2)`
	return sqldb.Listing[delivery]{
		Count: `SELECT count(*)` + from,
		Read:  `SELECT ` + strings.Replace(deliveryColumns, "d.body", "''", 1) + from + ` ORDER BY d.created_at DESC, d.id DESC LIMIT $3 OFFSET $4`,
		Scan:  func(r *sql.Rows) (d delivery, err error) { return d, d.scan(r.Scan) },
	}.Page(ctx, s.db, p, hookID, state)
}

// repeat makes a delivery that has ended pending again. It returns false if it has not ended.
func (s store) repeat(ctx context.Context, hookID, id string, now time.Time) (bool, error) {
	return s.db.Changed(s.db.ExecContext(ctx, `
		UPDATE platform_deliveries SET state = 'PENDING', next_at = $3, attempts = 0, first_at = 0, completed_at = 0
		WHERE webhook_id = $1 AND id = $2 AND state <> 'PENDING'`, hookID, id, sqldb.Micros(now)))
}

// deleteDeliveries deletes deliveries that ended before a time.
func (s store) deleteDeliveries(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM platform_deliveries WHERE completed_at > 0 AND completed_at < $1`, sqldb.Micros(before))
	return s.db.Wrap(err)
}
