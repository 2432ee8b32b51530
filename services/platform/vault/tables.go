package vault

import (
	"context"
	"database/sql"
	"fmt"

	"slipway.dev/services/internal/sqldb"
)

// Tables are those with sealed rows: each has an id, which is a text, and sealed,
// data_key and key_id as Seal makes them.
type Tables struct {
	DB    *sqldb.DB
	Names []string
}

// Check says whether every stored secret can be opened; a process that cannot must
// not start. keys may be nil: then there may be none. The error names the key that is
// missing.
func (t Tables) Check(ctx context.Context, keys *Keys) error {
	for _, table := range t.Names {
		samples, err := t.samples(ctx, table)
		if err != nil {
			return fmt.Errorf("reading which master keys are in use: %w", err)
		}
		for _, r := range samples {
			if keys == nil {
				return fmt.Errorf("there are credentials sealed with the master key %s, and no master_key_file", r.envelope.KeyID)
			}
			if _, err := keys.Open(r.id, r.envelope); err != nil {
				return fmt.Errorf("there are credentials sealed with the master key %s: %w", r.envelope.KeyID, err)
			}
		}
	}
	return nil
}

// Rotate wraps every data key with the current master key and returns how many it
// changed. It may run while the service is used.
func (t Tables) Rotate(ctx context.Context, keys *Keys) (n int, err error) {
	current, err := keys.CurrentID()
	if err != nil {
		return 0, err
	}
	for _, table := range t.Names {
		done, err := t.rotate(ctx, table, keys, current)
		if n += done; err != nil {
			return n, err
		}
	}
	return n, nil
}

func (t Tables) rotate(ctx context.Context, table string, keys *Keys, current string) (n int, err error) {
	for after := ""; ; {
		batch, err := t.sealedOtherwise(ctx, table, current, after)
		if err != nil || len(batch) == 0 {
			return n, err
		}
		for _, r := range batch {
			after = r.id
			next, err := keys.Rewrap(r.id, r.envelope)
			if err != nil {
				return n, err
			}
			done, err := t.rewrap(ctx, table, r, next)
			if err != nil {
				return n, fmt.Errorf("writing the data key of %s: %w", r.id, err)
			}
			if done {
				n++
			}
		}
	}
}

// row is what sealed rows have in common.
type row struct {
	id       string
	envelope Envelope
}

func scanRow(r *sql.Rows) (v row, err error) {
	return v, r.Scan(&v.id, &v.envelope.Sealed, &v.envelope.DataKey, &v.envelope.KeyID)
}

// samples reads one row of each master key in use.
func (t Tables) samples(ctx context.Context, table string) ([]row, error) {
	return sqldb.Listing[row]{
		Read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE id IN (SELECT min(id) FROM ` + table + ` GROUP BY key_id)`,
		Scan: scanRow,
	}.All(ctx, t.DB)
}

// sealedOtherwise reads some rows that another master key wraps.
func (t Tables) sealedOtherwise(ctx context.Context, table, keyID, after string) ([]row, error) {
	return sqldb.Listing[row]{
		Read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE key_id <> $1 AND id > $2 ORDER BY id LIMIT 100`,
		Scan: scanRow,
	}.All(ctx, t.DB, keyID, after)
}

// rewrap returns false when the row changed meanwhile; then its writer has sealed it
// anew.
func (t Tables) rewrap(ctx context.Context, table string, r row, next Envelope) (bool, error) {
	return t.DB.Changed(t.DB.ExecContext(ctx, `
		UPDATE `+table+` SET data_key = $2, key_id = $3 WHERE id = $1 AND key_id = $4 AND data_key = $5`,
		r.id, next.DataKey, next.KeyID, r.envelope.KeyID, r.envelope.DataKey))
}
