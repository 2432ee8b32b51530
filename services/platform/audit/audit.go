// Package audit keeps who did what with a secret. It owns the table platform_audit,
// to which rows are only ever added until their retention ends.
package audit

import (
	"context"
	"fmt"
	"time"

	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
)

// Trail is the table, and the clock.
type Trail struct {
	DB  *sqldb.DB
	Now func() time.Time
}

// Event is what somebody did with a secret.
type Event struct {
	// UserID is 0 for an operator, and for the program itself.
	UserID int64
	// WorkspaceID is 0 for a personal one, and for none.
	WorkspaceID int64
	// Action is e.g. "credentials.read", Subject the id of what was read.
	Action, Subject string
}

// Note adds an event, with the id of the request that ctx carries.
func (t Trail) Note(ctx context.Context, e Event) error {
	_, err := t.DB.ExecContext(ctx, `
		INSERT INTO platform_audit (id, at, user_id, workspace_id, action, subject, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		api.NewID(), sqldb.Micros(t.Now()), e.UserID, e.WorkspaceID, e.Action, e.Subject, rpc.CallFrom(ctx).RequestID)
	if err != nil {
		return fmt.Errorf("writing the audit trail: %w", t.DB.Lost(err))
	}
	return nil
}

// Sweep removes the part of the trail before an instant.
func (t Trail) Sweep(ctx context.Context, before time.Time) error {
	_, err := t.DB.ExecContext(ctx, `DELETE FROM platform_audit WHERE at < $1`, sqldb.Micros(before))
	return t.DB.Lost(err)
}
