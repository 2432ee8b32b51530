package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// hookColumns are the columns that hook.scan reads, of platform_webhooks AS h.
const hookColumns = `h.id, coalesce(h.user_id, 0), coalesce(h.workspace_id, 0), h.url, h.events, h.sealed, h.data_key, h.key_id, h.created_by,
	coalesce((SELECT u.user_name FROM platform_users u WHERE u.id = h.created_by), ''),
	h.created_at, h.updated_at, h.disabled_at, h.disabled_reason, h.failing_since, h.failures`

func (h *hook) into(events *string) []any {
	return []any{
		&h.id, &h.owner.userID, &h.owner.workspaceID, &h.url, events, &h.envelope.Sealed, &h.envelope.DataKey, &h.envelope.KeyID, &h.createdBy, &h.creator,
		sqldb.ScanTime(&h.created), sqldb.ScanTime(&h.updated), sqldb.ScanTime(&h.disabled), &h.disabledReason, sqldb.ScanTime(&h.failing), &h.failures,
	}
}

func (h *hook) scan(scan func(...any) error) error {
	var events string
	err := scan(h.into(&events)...)
	h.events = strings.Fields(events)
	return err
}

// ofOwner is a condition for the webhooks of the user $1 or, if $1 is 0, of the workspace $2.
const ofOwner = `coalesce(h.user_id, 0) = $1 AND coalesce(h.workspace_id, 0) = $2 AND (h.user_id = $1 OR h.workspace_id = $2)`

// hooksOf returns the webhooks of an owner, the oldest first. A disabled user has none.
func (s store) hooksOf(ctx context.Context, o owner) ([]hook, error) {
	return sqldb.Listing[hook]{
		Read: `SELECT ` + hookColumns + ` FROM platform_webhooks h WHERE ` + ofOwner + `
			AND NOT EXISTS (SELECT 1 FROM platform_users u WHERE u.id = h.user_id AND u.disabled_at > 0) ORDER BY h.created_at, h.id LIMIT $3`,
		Scan: func(r *sql.Rows) (h hook, err error) { return h, h.scan(r.Scan) },
	}.All(ctx, s.db, o.userID, o.workspaceID, limits.WebhooksPerOwner)
}

// hook returns a webhook of an owner, or fault.NotFound.
func (s store) hook(ctx context.Context, o owner, id string) (h hook, err error) {
	err = h.scan(s.db.QueryRowContext(ctx, `SELECT `+hookColumns+` FROM platform_webhooks h WHERE `+ofOwner+` AND h.id = $3`, o.userID, o.workspaceID, id).Scan)
	return h, s.db.NotFound("webhook", err)
}

// insertHook returns false if the owner was deleted meanwhile, and fault.Invalid if it has too
// many webhooks.
func (s store) insertHook(ctx context.Context, h hook) (bool, error) {
	return s.audit.Change(ctx, h.event("webhook.create", nil, h.values()), func(t *sql.Tx) (bool, error) {
		// This serializes the creation of the webhooks of an owner.
		for table, id := range map[string]int64{"platform_users": h.owner.userID, "platform_workspaces": h.owner.workspaceID} {
			if id == 0 {
				continue
			}
			exists, err := s.db.Changed(t.ExecContext(ctx, `UPDATE `+table+` SET created_at = created_at WHERE id = $1`, id))
			if err != nil || !exists {
				return false, err
			}
		}
		var n int
		if err := t.QueryRowContext(ctx, `SELECT count(*) FROM platform_webhooks h WHERE `+ofOwner, h.owner.userID, h.owner.workspaceID).Scan(&n); err != nil {
			return false, err
		}
		if err := api.Webhooks.Check(n); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_webhooks (id, user_id, workspace_id, url, events, sealed, data_key, key_id, created_by, created_at, updated_at)
			VALUES ($1, nullif(CAST($2 AS bigint), 0), nullif(CAST($3 AS bigint), 0), $4, $5, $6, $7, $8, $9, $10, $10)`,
			h.id, h.owner.userID, h.owner.workspaceID, h.url, strings.Join(h.events, " "), h.envelope.Sealed, h.envelope.DataKey, h.envelope.KeyID,
			h.createdBy, sqldb.Micros(h.created)))
	})
}

// updateHook returns false if the webhook was changed or deleted since old was read. If it is
// disabled, its pending deliveries fail. If it gets another URL or is enabled, its failures are
// forgotten.
func (s store) updateHook(ctx context.Context, old, h hook) (bool, error) {
	return s.audit.Change(ctx, h.event("webhook.update", old.values(), h.values()), func(t *sql.Tx) (bool, error) {
		done, err := s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_webhooks SET url = $2, events = $3, sealed = $4, data_key = $5, key_id = $6, updated_at = $7, disabled_at = $8, disabled_reason = $9
			WHERE id = $1 AND updated_at = $10 AND disabled_at = $11 AND data_key = $12`,
			h.id, h.url, strings.Join(h.events, " "), h.envelope.Sealed, h.envelope.DataKey, h.envelope.KeyID, sqldb.Micros(h.updated),
			sqldb.Micros(h.disabled), h.disabledReason, sqldb.Micros(old.updated), sqldb.Micros(old.disabled), old.envelope.DataKey))
		switch {
		case err != nil || !done:
			return false, err
		case !h.disabled.IsZero():
			return true, failPending(ctx, t, h.id, h.updated)
		case h.url != old.url || !old.disabled.IsZero():
			return true, forgetFailures(ctx, t, h.id, h.updated)
		}
		return true, nil
	})
}

// forgetFailures makes the pending deliveries of a webhook due, as if none had been attempted.
func forgetFailures(ctx context.Context, t *sql.Tx, id string, now time.Time) error {
	if _, err := t.ExecContext(ctx, `UPDATE platform_webhooks SET failing_since = 0, failures = 0, retry_at = 0 WHERE id = $1`, id); err != nil {
		return err
	}
	_, err := t.ExecContext(ctx, `UPDATE platform_deliveries SET first_at = 0, next_at = $2 WHERE webhook_id = $1 AND state = 'PENDING'`, id, sqldb.Micros(now))
	return err
}

// disable disables a webhook that fails, and adds a delivery about it for other webhooks. It
// returns false if the webhook was changed or deleted meanwhile.
func (s store) disable(ctx context.Context, h hook, reason string, d delivery, others []string, now time.Time) (bool, error) {
	e := h.event("webhook.disable", nil, map[string]any{"host": hostOf(h.url), "reason": reason})
	return s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		done, err := s.db.Changed(t.ExecContext(ctx, `
			UPDATE platform_webhooks SET disabled_at = $2, disabled_reason = $3, updated_at = $2 WHERE id = $1 AND disabled_at = 0 AND updated_at = $4`,
			h.id, sqldb.Micros(now), reason, sqldb.Micros(h.updated)))
		if err != nil || !done {
			return false, err
		}
		for _, other := range others {
			if _, err := insertIn(ctx, t, other, d, now); err != nil && !errors.Is(err, errTooMany) {
				return false, err
			}
		}
		return true, failPending(ctx, t, h.id, now)
	})
}

// failPending ends the pending deliveries of a webhook that is disabled.
func failPending(ctx context.Context, t *sql.Tx, id string, now time.Time) error {
	_, err := t.ExecContext(ctx, `
		UPDATE platform_deliveries SET state = 'FAILED', completed_at = $2, busy_until = 0,
			problem = CASE WHEN problem = '' THEN 'The webhook was disabled' ELSE problem END
		WHERE webhook_id = $1 AND state = 'PENDING'`, id, sqldb.Micros(now))
	return err
}

// deleteHook deletes a webhook with its deliveries. It returns false if there is none.
func (s store) deleteHook(ctx context.Context, h hook) (bool, error) {
	return s.audit.Change(ctx, h.event("webhook.delete", h.values(), nil), func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `DELETE FROM platform_webhooks WHERE id = $1`, h.id))
	})
}
