package vault

import (
	"context"
	"database/sql"
	"fmt"

	"slipway.dev/services/internal/sqldb"
)

// Tables lists the tables that store envelopes. Each has the columns id (text), and sealed,
// data_key and key_id, which hold the fields of an Envelope.
type Tables struct {
	DB    *sqldb.DB
	Names []string
}

// Check returns an error if a master key that is in use is missing from keys. The process must
// not start after such an error. Check opens one row of each master key in use. keys may be nil
// if no secrets are stored.
func (t Tables) Check(ctx context.Context, keys *Keys) error {
	for _, table := range t.Names {
		samples, err := t.samples(ctx, table)
		if err != nil {
			return fmt.Errorf("reading which master keys are in use: %w", err)
		}
		for _, r := range samples {
			if keys == nil {
				return fmt.Errorf("there are credentials sealed with the master key %s, but master_key_file is not set", r.envelope.KeyID)
			}
			if _, err := keys.Open(r.id, r.envelope); err != nil {
				return fmt.Errorf("there are credentials sealed with the master key %s: %w", r.envelope.KeyID, err)
			}
		}
	}
	return nil
}

// Rotate wraps every data key with the current master key and returns the number of changed
// rows. It may run while the service handles requests.
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
		batch, err := t.outdated(ctx, table, current, after)
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

// A row is a record of any of the tables.
type row struct {
	id       string
	envelope Envelope
}

func scanRow(r *sql.Rows) (v row, err error) {
	return v, r.Scan(&v.id, &v.envelope.Sealed, &v.envelope.DataKey, &v.envelope.KeyID)
}

// samples returns one row for each master key in use.
func (t Tables) samples(ctx context.Context, table string) ([]row, error) {
	return sqldb.Listing[row]{
		Read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE id IN (SELECT min(id) FROM ` + table + ` GROUP BY key_id)`,
		Scan: scanRow,
	}.All(ctx, t.DB)
}

// outdated returns up to 100 rows with an id above after whose data key is not wrapped by the
// master key keyID, ordered by id.
func (t Tables) outdated(ctx context.Context, table, keyID, after string) ([]row, error) {
	return sqldb.Listing[row]{
		Read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE key_id <> $1 AND id > $2 ORDER BY id LIMIT 100`,
		Scan: scanRow,
	}.All(ctx, t.DB, keyID, after)
}

// rewrap stores the rewrapped data key of a row. It returns false if the row has changed
// since it was read: its writer has sealed it with the current master key.
func (t Tables) rewrap(ctx context.Context, table string, r row, next Envelope) (bool, error) {
	return t.DB.Changed(t.DB.ExecContext(ctx, `
		UPDATE `+table+` SET data_key = $2, key_id = $3 WHERE id = $1 AND key_id = $4 AND data_key = $5`,
		r.id, next.DataKey, next.KeyID, r.envelope.KeyID, r.envelope.DataKey))
}
