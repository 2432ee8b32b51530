package store

import (
	"context"
	"database/sql"
	"fmt"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/tokens"
)

// HashSome puts some requests that are kept under their token under its key instead: those
// of a release that kept tokens. It returns how many it moved. Replicas may do it at once.
func (s Store) HashSome(ctx context.Context) (int, error) {
	plans, err := s.underTokens(ctx)
	if err != nil || len(plans) == 0 {
		return 0, err
	}
	t, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = t.Rollback() }() // after a commit it does nothing
	for token, plan := range plans {
		if err := rekey(ctx, t, token, plan); err != nil {
			return 0, err
		}
	}
	return len(plans), t.Commit()
}

// underTokens reads some plans that are kept under their token, which is shorter than
// a key.
func (s Store) underTokens(ctx context.Context) (map[string][]byte, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, plan FROM container_requests WHERE length(id) = 26 LIMIT 500`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]byte{}
	for rows.Next() {
		var token string
		var plan []byte
		if err := rows.Scan(&token, &plan); err != nil {
			return nil, err
		}
		out[token] = plan
	}
	return out, rows.Err()
}

func rekey(ctx context.Context, t *sql.Tx, token string, stored []byte) error {
	plan := &containerv1.Plan{}
	if err := proto.Unmarshal(stored, plan); err != nil {
		return fmt.Errorf("reading a stored plan: %w", err)
	}
	kept, err := proto.Marshal(tokens.Without(plan))
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `UPDATE container_requests SET id = $2, plan = $3 WHERE id = $1`, token, tokens.KeyOf(token), kept); err != nil {
		return err
	}
	_, err = t.ExecContext(ctx, `UPDATE container_digests SET request_id = $2 WHERE request_id = $1`, token, tokens.KeyOf(token))
	return err
}
