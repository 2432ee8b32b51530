package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// A Record is a stored event.
type Record struct {
	Sequence           int64
	At                 time.Time
	UserID             int64
	Actor, Client      string
	OrgID, WorkspaceID int64
	Action, Subject    string
	Refused            bool
	Reason             string
	Before, After      string // JSON, or ""
	RequestID          string
	Hash               []byte // nil if the event was recorded before the chain began
}

// sum returns the hash of the previous record's hash and the content of r.
func (r Record) sum(previous []byte) ([]byte, error) {
	raw, err := json.Marshal([]any{
		r.Sequence, sqldb.Micros(r.At), r.UserID, r.Actor, r.Client, r.OrgID, r.WorkspaceID, r.Action, r.Subject, r.Refused, r.Reason,
		r.Before, r.After, r.RequestID,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding an audit event: %w", err)
	}
	h := sha256.New()
	h.Write(previous)
	h.Write(raw)
	return h.Sum(nil), nil
}

const recordColumns = `sequence, at, user_id, actor, client, org_id, workspace_id, action, subject, refused, reason, old_values, new_values, request_id, hash`

func scanRecord(rows *sql.Rows) (r Record, err error) {
	err = rows.Scan(&r.Sequence, sqldb.ScanTime(&r.At), &r.UserID, &r.Actor, &r.Client, &r.OrgID, &r.WorkspaceID, &r.Action, &r.Subject,
		&r.Refused, &r.Reason, &r.Before, &r.After, &r.RequestID, &r.Hash)
	return r, err
}

// A Position identifies an event of the chain.
type Position struct {
	Sequence int64
	Hash     []byte
}

// String returns the position as NUMBER:HASH.
func (p Position) String() string {
	return fmt.Sprintf("%d:%s", p.Sequence, hex.EncodeToString(p.Hash))
}

// ParsePosition parses the result of String.
func ParsePosition(text string) (Position, error) {
	number, hash, _ := strings.Cut(text, ":")
	sequence, err := strconv.ParseInt(number, 10, 64)
	if err != nil || sequence < 0 {
		return Position{}, fmt.Errorf("%q is not NUMBER:HASH, as `slipwayd audit verify` prints it", text)
	}
	raw, err := hex.DecodeString(hash)
	if err != nil {
		return Position{}, fmt.Errorf("%q is not NUMBER:HASH, as `slipwayd audit verify` prints it", text)
	}
	return Position{sequence, raw}, nil
}

// ErrBroken is returned if the chain was changed outside this package.
var ErrBroken = errors.New("the audit trail is not intact")

// verifyPage is the number of events that Verify reads per query.
const verifyPage = 1000

// ends returns the position before the first event of the chain, and that of the newest event.
func (l Log) ends(ctx context.Context) (start, head Position, err error) {
	err = l.DB.QueryRowContext(ctx, `SELECT start_sequence, start_hash, sequence, hash FROM platform_audit_chain WHERE id = 1`).
		Scan(&start.Sequence, &start.Hash, &head.Sequence, &head.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Position{}, Position{}, nil
	}
	return start, head, l.DB.Wrap(err)
}

// Verify checks the chain and returns the position of its newest event. It returns ErrBroken if
// an event was changed, inserted or deleted, or if the hash of an event differs from its known
// position. A user with write access to the database can recompute all hashes, but cannot change
// positions that were stored elsewhere. Other processes may append and sweep concurrently.
func (l Log) Verify(ctx context.Context, known ...Position) (head Position, err error) {
	for {
		start, head, err := l.ends(ctx)
		if err != nil {
			return head, err
		}
		err = l.verify(ctx, start, head, known)
		if err == nil {
			return head, nil
		}
		// A concurrent sweep has deleted events that this call was about to read.
		if after, _, err2 := l.ends(ctx); err2 != nil || after.Sequence == start.Sequence {
			return head, errors.Join(err, err2)
		}
	}
}

func (l Log) verify(ctx context.Context, start, head Position, known []Position) error {
	at := start
	for at.Sequence < head.Sequence {
		page, err := sqldb.Listing[Record]{
			Read: `SELECT ` + recordColumns + ` FROM platform_audit WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence LIMIT $3`,
			Scan: scanRecord,
		}.All(ctx, l.DB, at.Sequence, head.Sequence, verifyPage)
		if err != nil {
			return fmt.Errorf("reading the audit trail: %w", err)
		}
		if len(page) == 0 {
			return fmt.Errorf("%w: the events after %d are missing", ErrBroken, at.Sequence)
		}
		for _, r := range page {
			if at, err = next(at, r, known); err != nil {
				return err
			}
		}
	}
	if !bytes.Equal(at.Hash, head.Hash) {
		return fmt.Errorf("%w: the newest event %d does not match the end of the chain", ErrBroken, head.Sequence)
	}
	for _, k := range known {
		if k.Sequence < start.Sequence || k.Sequence == start.Sequence && !bytes.Equal(k.Hash, start.Hash) {
			return fmt.Errorf("%w: it begins after event %d, so that event %d cannot be compared. If audit_retention explains that, use a newer known event", ErrBroken, start.Sequence, k.Sequence)
		}
		if k.Sequence > head.Sequence {
			return fmt.Errorf("%w: the newest event is %d, but the known event %d is later", ErrBroken, head.Sequence, k.Sequence)
		}
	}
	return nil
}

// next returns the position of r, which must follow at.
func next(at Position, r Record, known []Position) (Position, error) {
	if r.Sequence != at.Sequence+1 {
		return at, fmt.Errorf("%w: event %d is missing", ErrBroken, at.Sequence+1)
	}
	want, err := r.sum(at.Hash)
	if err != nil {
		return at, err
	}
	if !bytes.Equal(want, r.Hash) {
		return at, fmt.Errorf("%w: event %d was changed", ErrBroken, r.Sequence)
	}
	for _, k := range known {
		if k.Sequence == r.Sequence && !bytes.Equal(k.Hash, r.Hash) {
			return at, fmt.Errorf("%w: event %d differs from the known event", ErrBroken, r.Sequence)
		}
	}
	return Position{r.Sequence, r.Hash}, nil
}

// Sweep deletes events older than before from the start of the chain, and stores the new start.
// Events that a sink has not accepted yet are stored for limits.AuditSinkHold longer, if any
// process has had a sink within that time.
func (l Log) Sweep(ctx context.Context, before time.Time) error {
	return l.DB.Tx(ctx, func(t *sql.Tx) error {
		var start, head int64
		err := t.QueryRowContext(ctx, `UPDATE platform_audit_chain SET sequence = sequence WHERE id = 1 RETURNING start_sequence, sequence`).Scan(&start, &head)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		last, err := l.lastToDelete(ctx, t, head, before)
		if err != nil {
			return err
		}
		if last > start {
			_, err := t.ExecContext(ctx, `
				UPDATE platform_audit_chain SET start_sequence = $1, start_hash = (SELECT hash FROM platform_audit WHERE sequence = $1) WHERE id = 1`, last)
			if err != nil {
				return err
			}
		}
		_, err = t.ExecContext(ctx, `DELETE FROM platform_audit WHERE sequence <= $1`, last)
		return err
	})
}

// lastToDelete returns the newest event that Sweep deletes.
func (l Log) lastToDelete(ctx context.Context, t *sql.Tx, head int64, before time.Time) (int64, error) {
	last, err := lastBefore(ctx, t, head, before)
	if err != nil {
		return 0, err
	}
	var written int64
	err = t.QueryRowContext(ctx, `SELECT sequence FROM platform_audit_sink WHERE id = 1 AND seen_at >= $1`, sqldb.Micros(l.Now().Add(-limits.AuditSinkHold))).Scan(&written)
	if errors.Is(err, sql.ErrNoRows) || err == nil && written >= last {
		return last, nil
	}
	if err != nil {
		return 0, err
	}
	held, err := lastBefore(ctx, t, head, before.Add(-limits.AuditSinkHold))
	return max(written, held), err
}

// lastBefore returns the newest event before the first one that is not older than a time.
func lastBefore(ctx context.Context, t *sql.Tx, head int64, before time.Time) (int64, error) {
	var first sql.NullInt64
	if err := t.QueryRowContext(ctx, `SELECT min(sequence) FROM platform_audit WHERE at >= $1`, sqldb.Micros(before)).Scan(&first); err != nil {
		return 0, err
	}
	if first.Valid {
		return first.Int64 - 1, nil
	}
	return head, nil
}
