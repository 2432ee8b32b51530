package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/engine"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// Inputs returns what the worker of a build has read; nil if that is not known, and fault.NotFound
// without such a build.
func (s Store) Inputs(ctx context.Context, id string) (*buildv1.Inputs, error) {
	var packed []byte
	err := s.db.QueryRowContext(ctx, `SELECT inputs FROM build_builds WHERE id = $1`, id).Scan(&packed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, UnknownBuild(err)
	case err != nil || len(packed) == 0:
		return nil, err
	}
	out := &buildv1.Inputs{}
	if err := sqldb.Unpack(packed, limits.BuildInputsStored, out); err != nil {
		return nil, fmt.Errorf("reading the stored inputs of %s: %w", id, err)
	}
	return out, nil
}

// States of the provenance of a mirror.
const (
	ProvenancePending  = "PENDING" // an attempt has failed, and is repeated
	ProvenanceAttached = "ATTACHED"
	ProvenanceFailed   = "FAILED"
)

// NoteProvenance stores the state of the provenance of a mirror. An attached statement stays, whatever
// another attempt reports later. It returns false if there is no such mirror, or it has not succeeded.
func (s Store) NoteProvenance(ctx context.Context, id, state, message string) (bool, error) {
	return s.change(ctx, `UPDATE build_builds SET
			provenance = CASE WHEN provenance = '`+ProvenanceAttached+`' THEN provenance ELSE $2 END,
			provenance_message = CASE WHEN provenance = '`+ProvenanceAttached+`' THEN '' ELSE $3 END
		WHERE id = $1 AND engine = $4 AND succeeded`,
		id, state, message, engine.Mirror)
}

// Provenance returns the state of the provenance of a mirror, and why it is not at the target; "" if
// there was no attempt yet.
func (s Store) Provenance(ctx context.Context, id string) (state, message string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT provenance, provenance_message FROM build_builds WHERE id = $1`, id).Scan(&state, &message)
	if errors.Is(err, sql.ErrNoRows) {
		err = UnknownBuild(err)
	}
	return state, message, err
}
