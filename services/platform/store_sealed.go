package platform

import (
	"context"
	"database/sql"
)

// sealedTables are those with rows that a master key wraps.
func sealedTables() []string {
	return []string{"platform_credentials", "platform_grants", "platform_peers"}
}

// sealedRow is what such rows have in common.
type sealedRow struct {
	id       string
	envelope envelope
}

func scanSealed(r *sql.Rows) (v sealedRow, err error) {
	return v, r.Scan(&v.id, &v.envelope.sealed, &v.envelope.dataKey, &v.envelope.keyID)
}

// sealedByKey reads one row of each master key in use.
func (s store) sealedByKey(ctx context.Context, table string) ([]sealedRow, error) {
	out, _, err := listing[sealedRow]{
		read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE id IN (SELECT min(id) FROM ` + table + ` GROUP BY key_id) LIMIT $1 OFFSET $2`,
		scan: scanSealed,
	}.run(ctx, s.db, page{limit: 1000})
	return out, err
}

// sealedOtherwise reads some rows that another master key wraps.
func (s store) sealedOtherwise(ctx context.Context, table, keyID, after string) ([]sealedRow, error) {
	out, _, err := listing[sealedRow]{
		read: `SELECT id, sealed, data_key, key_id FROM ` + table + ` WHERE key_id <> $1 AND id > $2 ORDER BY id LIMIT $3 OFFSET $4`,
		scan: scanSealed,
	}.run(ctx, s.db, page{limit: 100}, keyID, after)
	return out, err
}

// rewrap answers false when the row changed meanwhile; then its writer has sealed
// it anew.
func (s store) rewrap(ctx context.Context, table, id string, was, next envelope) (bool, error) {
	return s.changed(s.db.ExecContext(ctx, `
		UPDATE `+table+` SET data_key = $2, key_id = $3 WHERE id = $1 AND key_id = $4 AND data_key = $5`,
		id, next.dataKey, next.keyID, was.keyID, was.dataKey))
}
