package vexdocs

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
)

// store accesses platform_vex.
type store struct {
	db    *sqldb.DB
	audit audit.Log
}

const (
	columns = `coalesce(user_id, 0), coalesce(org_id, 0), name, digest, size, statements, updated_at, updated_by`
	// ofOwner is a condition for the documents of the user $1 or of the organisation $2. The other one is 0, which no
	// user and no organisation has as id.
	ofOwner = ` FROM platform_vex WHERE (user_id = $1 OR org_id = $2)`
)

func (d *document) columns() []any {
	return []any{&d.user, &d.org, &d.name, &d.digest, &d.size, &d.statements, sqldb.ScanTime(&d.updated), &d.updatedBy}
}

func scanDocument(rows *sql.Rows) (d document, err error) { return d, rows.Scan(d.columns()...) }

// documents returns the documents of an owner, without their content.
func (s store) documents(ctx context.Context, of owner) ([]document, error) {
	return sqldb.Listing[document]{Scan: scanDocument, Read: `SELECT ` + columns + ofOwner + ` ORDER BY name LIMIT $3`}.All(ctx, s.db, of.user, of.org, limits.VEXPerOwner)
}

// document returns a document, or fault.NotFound.
func (s store) document(ctx context.Context, of owner, name string) (d document, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT `+columns+`, content`+ofOwner+` AND name = $3`, of.user, of.org, name).Scan(append(d.columns(), &d.content)...)
	return d, s.db.NotFound("VEX document", err)
}

// applied returns the documents of an organisation and of a user with their content, in that order.
func (s store) applied(ctx context.Context, of owner) ([]document, error) {
	return sqldb.Listing[document]{Scan: func(rows *sql.Rows) (d document, err error) {
		return d, rows.Scan(append(d.columns(), &d.content)...)
	}, Read: `SELECT ` + columns + `, content` + ofOwner + ` ORDER BY CASE WHEN org_id IS NULL THEN 1 ELSE 0 END, name LIMIT $3`}.All(ctx, s.db, of.user, of.org, 2*limits.VEXPerOwner)
}

// version returns a hash of the names and contents of the documents of an organisation and of a user.
func (s store) version(ctx context.Context, of owner) (string, error) {
	list, err := sqldb.Listing[document]{Scan: scanDocument, Read: `
		SELECT ` + columns + ofOwner + ` ORDER BY CASE WHEN org_id IS NULL THEN 1 ELSE 0 END, name LIMIT $3`}.All(ctx, s.db, of.user, of.org, 2*limits.VEXPerOwner)
	if err != nil {
		return "", fmt.Errorf("reading OpenVEX documents: %w", err)
	}
	return versionOf(list), nil
}

// versionOf returns a hash of the names and contents of documents.
func versionOf(list []document) string {
	w := sha256.New()
	for _, d := range list {
		_, _ = fmt.Fprintf(w, "%q %s\n", d.title(), d.digest) // never fails
	}
	return hex.EncodeToString(w.Sum(nil))
}

// robotOrg returns the organisation of a robot of an organisation; 0 for another account.
func (s store) robotOrg(ctx context.Context, id int64) (org int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT org_id FROM platform_robots WHERE id = $1`, id).Scan(&org)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return org, s.db.Wrap(err)
}

// lock serializes changes of the documents of an owner until the end of the transaction. It returns fault.NotFound if
// the owner was deleted.
func (s store) lock(ctx context.Context, t *sql.Tx, of owner) error {
	table, id := "platform_users", of.user
	if of.org != 0 {
		table, id = "platform_orgs", of.org
	}
	exists, err := s.db.Changed(t.ExecContext(ctx, `UPDATE `+table+` SET created_at = created_at WHERE id = $1`, id))
	if err == nil && !exists {
		err = fault.NotFound.Newf("The owner of the VEX document was deleted")
	}
	return err
}

// set stores or replaces a document. It returns fault.Invalid if its owner has too many.
func (s store) set(ctx context.Context, d document) error {
	old, err := s.document(ctx, d.owner, d.name)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return err
	}
	e := audit.Event{Action: "vex.set", OrgID: d.org, Subject: d.title(), After: d.values()}
	if err == nil {
		e.Before = old.values()
	}
	_, err = s.audit.Change(ctx, e, func(t *sql.Tx) (bool, error) {
		if err := s.lock(ctx, t, d.owner); err != nil {
			return false, err
		}
		var n int
		var size, statements, products int64
		err := t.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(size), 0), coalesce(sum(statements), 0), coalesce(sum(products), 0)`+ofOwner+` AND name <> $3`, d.user, d.org, d.name).Scan(&n, &size, &statements, &products)
		if err != nil {
			return false, err
		}
		if err := api.VexDocuments.Check(n); err != nil {
			return false, err
		}
		if size+d.size > limits.VEXOwnedTotal || statements+d.statements > limits.VEXOwnedStatements || products+d.products > limits.VEXOwnedProducts {
			return false, fault.Invalid.Newf("All VEX documents of an owner may have %d MiB, %d statements, and %d products and vulnerabilities; delete unused ones first",
				limits.VEXOwnedTotal>>20, limits.VEXOwnedStatements, limits.VEXOwnedProducts)
		}
		if _, err := t.ExecContext(ctx, `DELETE`+ofOwner+` AND name = $3`, d.user, d.org, d.name); err != nil {
			return false, err
		}
		return s.db.Changed(t.ExecContext(ctx, `
			INSERT INTO platform_vex (user_id, org_id, name, content, digest, size, statements, updated_at, updated_by, products)
			VALUES (nullif(CAST($1 AS bigint), 0), nullif(CAST($2 AS bigint), 0), $3, $4, $5, $6, $7, $8, $9, $10)`,
			d.user, d.org, d.name, d.content, d.digest, d.size, d.statements, sqldb.Micros(d.updated), d.updatedBy, d.products))
	})
	return err
}

// delete deletes a document, or returns fault.NotFound.
func (s store) delete(ctx context.Context, of owner, name string) error {
	old, err := s.document(ctx, of, name)
	if err != nil {
		return err
	}
	done, err := s.audit.Change(ctx, audit.Event{Action: "vex.delete", OrgID: of.org, Subject: old.title(), Before: old.values()}, func(t *sql.Tx) (bool, error) {
		return s.db.Changed(t.ExecContext(ctx, `DELETE`+ofOwner+` AND name = $3`, of.user, of.org, name))
	})
	if err == nil && !done {
		err = fault.NotFound.Newf("No such VEX document")
	}
	return err
}
