// Package audit records every change and sign-in: the actor, the client's address, the subject,
// and the values before and after, without secrets. It owns the tables platform_audit,
// platform_audit_chain and platform_audit_sink. A Forwarder also writes the events to a sink.
//
// An event is written in the transaction of the change that it records, so that either both or
// neither are stored. Events form a hash chain, so that Verify detects events that were changed,
// inserted or deleted outside this package. Sweep only deletes events at the old end of the
// chain. Append locks one row until the end of the transaction, so it must be the last statement
// of the transaction.
package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
)

// An Actor is the user or program that makes a call.
type Actor struct {
	// UserID is the id of the user, or 0 for an operator and for the program itself.
	UserID int64
	// Name is the user's name, or "operator:" or "slipwayd:" followed by an operating system
	// account.
	Name string
}

type actorKey struct{}

// WithActor returns a context in which events without an actor get this actor.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// A Log writes to the audit trail.
type Log struct {
	DB  *sqldb.DB
	Now func() time.Time
	// Limiter limits the events of rejected attempts, which any client can cause, and the
	// changes of a user. Nil means no limit.
	Limiter *ratelimit.Limiter
	// Errors receives the errors of Refuse, which returns none. Nil discards them.
	Errors *slog.Logger
}

// An Event is one change, sign-in or rejected attempt.
type Event struct {
	// Actor is the actor; the zero value means the actor of the context.
	Actor Actor
	// OrgID and WorkspaceID are the organisation and workspace of the subject, or 0. They are 0
	// for a personal workspace.
	OrgID, WorkspaceID int64
	// Action names the action, such as "credentials.read". Subject is an id or a name.
	Action, Subject string
	// Refused is the reason for which the attempt was rejected, or "" if it succeeded.
	Refused string
	// Before and After are the changed values, encoded as JSON objects, or nil. They must not
	// contain secrets.
	Before, After any
}

// Append writes an event in the transaction of the change that it records, as its last
// statement.
func (l Log) Append(ctx context.Context, t *sql.Tx, e Event) error {
	r, err := l.record(ctx, e)
	if err != nil {
		return err
	}
	var previous []byte
	err = t.QueryRowContext(ctx, `
		INSERT INTO platform_audit_chain (id, sequence, start_sequence) VALUES (1, 1, 0)
		ON CONFLICT (id) DO UPDATE SET sequence = platform_audit_chain.sequence + 1
		RETURNING sequence, hash`).Scan(&r.Sequence, &previous)
	if err != nil {
		return fmt.Errorf("extending the audit trail: %w", err)
	}
	if r.Hash, err = r.sum(previous); err != nil {
		return err
	}
	_, err = t.ExecContext(ctx, `
		INSERT INTO platform_audit (sequence, at, user_id, actor, client, org_id, workspace_id, action, subject, refused, reason, old_values, new_values, request_id, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		r.Sequence, sqldb.Micros(r.At), r.UserID, r.Actor, r.Client, r.OrgID, r.WorkspaceID, r.Action, r.Subject, r.Refused, r.Reason, r.Before, r.After, r.RequestID, r.Hash)
	if err != nil {
		return fmt.Errorf("writing an audit event: %w", err)
	}
	_, err = t.ExecContext(ctx, `UPDATE platform_audit_chain SET hash = $1 WHERE id = 1`, r.Hash)
	return err
}

// AppendAll is Append for several events.
func (l Log) AppendAll(ctx context.Context, t *sql.Tx, events []Event) error {
	for _, e := range events {
		if err := l.Append(ctx, t, e); err != nil {
			return err
		}
	}
	return nil
}

// record returns the record of an event, with the current time.
func (l Log) record(ctx context.Context, e Event) (Record, error) {
	if (e.Actor == Actor{}) {
		e.Actor, _ = ctx.Value(actorKey{}).(Actor)
	}
	call := rpc.CallFrom(ctx)
	r := Record{
		At: sqldb.Time(sqldb.Micros(l.Now())), UserID: e.Actor.UserID, Actor: bounded(e.Actor.Name), OrgID: e.OrgID, WorkspaceID: e.WorkspaceID,
		Action: e.Action, Subject: bounded(e.Subject), Refused: e.Refused != "", Reason: bounded(e.Refused), RequestID: bounded(call.RequestID),
	}
	if call.ClientIP.IsValid() {
		r.Client = call.ClientIP.String()
	}
	var err1, err2 error
	r.Before, err1 = encode(e.Before)
	r.After, err2 = encode(e.After)
	return r, errors.Join(err1, err2)
}

// bounded truncates s to the length that is stored. It removes NUL, which PostgreSQL cannot
// store, so that a caller cannot prevent the event with such a string.
func bounded(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	if len(s) <= limits.AuditText {
		return s
	}
	r := []rune(s)
	return string(r[:min(len(r), limits.AuditText/4)])
}

// encode encodes values for storage.
func encode(values any) (string, error) {
	if values == nil {
		return "", nil
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encoding the values of an audit event: %w", err)
	}
	if len(raw) > limits.AuditValues {
		return `{"tooLong":true}`, nil
	}
	return string(raw), nil
}

// Record writes an event in its own transaction.
func (l Log) Record(ctx context.Context, e Event) error {
	return l.DB.Tx(ctx, func(t *sql.Tx) error { return l.Append(ctx, t, e) })
}

// Refuse records an attempt that was rejected with err. It ignores errors other than
// fault.Denied, fault.Unauthenticated and fault.Invalid. Within limits.AuditWindow it writes at
// most limits.AuditRefusals events per client address, and ten times that number in total. If
// an event cannot be written, Refuse only logs the error, because the attempt is rejected
// anyway.
func (l Log) Refuse(ctx context.Context, e Event, err error) {
	f, ok := fault.As(err)
	if !ok || f.Kind != fault.Denied && f.Kind != fault.Unauthenticated && f.Kind != fault.Invalid {
		return
	}
	e.Refused = f.Public
	ctx = context.WithoutCancel(ctx)
	if !l.admits(ctx, rpc.CallFrom(ctx).Client(), limits.AuditRefusals) || !l.admits(ctx, "all", 10*limits.AuditRefusals) {
		return
	}
	if err := l.Record(ctx, e); err != nil && l.Errors != nil {
		l.Errors.WarnContext(ctx, "A rejected attempt was not recorded in the audit trail", "action", e.Action, "err", err)
	}
}

// admits charges an event to a client and reports whether the client is within its limit.
func (l Log) admits(ctx context.Context, client string, count int) bool {
	if l.Limiter == nil {
		return true
	}
	_, err := l.Limiter.Charge(ctx, "rejected attempts", client, ratelimit.Limit{{Count: count, Window: limits.AuditWindow}}, 1)
	return err == nil
}

// errUnchanged makes Change roll its transaction back.
var errUnchanged = errors.New("nothing has changed")

// Change runs f in a transaction and appends the event if f returns true. Otherwise it rolls
// the transaction back and returns false. It returns fault.Exhausted if the user has made
// limits.AuditChanges changes within limits.AuditWindow: each is stored until its retention ends.
func (l Log) Change(ctx context.Context, e Event, f func(*sql.Tx) (bool, error)) (bool, error) {
	return l.ChangeAll(ctx, e, func(t *sql.Tx) (bool, []Event, error) {
		changed, err := f(t)
		return changed, nil, err
	})
}

// ChangeAll is like Change for a change with further events, which f returns. They are appended
// after e.
func (l Log) ChangeAll(ctx context.Context, e Event, f func(*sql.Tx) (changed bool, more []Event, err error)) (bool, error) {
	if err := l.chargeChange(ctx, e); err != nil {
		return false, err
	}
	err := l.DB.Tx(ctx, func(t *sql.Tx) error {
		changed, more, err := f(t)
		if err != nil {
			return err
		}
		if !changed {
			return errUnchanged
		}
		return l.AppendAll(ctx, t, append([]Event{e}, more...))
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, err
}

// chargeChange charges a change to the user who makes it. Operators have no limit.
func (l Log) chargeChange(ctx context.Context, e Event) error {
	if (e.Actor == Actor{}) {
		e.Actor, _ = ctx.Value(actorKey{}).(Actor)
	}
	if l.Limiter == nil || e.Actor.UserID == 0 {
		return nil
	}
	limit := ratelimit.Limit{{Count: limits.AuditChanges, Window: limits.AuditWindow}}
	_, err := l.Limiter.Charge(ctx, "changes", "user:"+strconv.FormatInt(e.Actor.UserID, 10), limit, 1)
	return err
}
