package build

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// lock reads the lock of a build; fault.NotFound when there is none.
func (s store) lock(ctx context.Context, id string) (*condav1.SolvePackagesResponse, error) {
	var packed []byte
	err := s.db.QueryRowContext(ctx, `SELECT conda_lock FROM build_builds WHERE id = $1`, id).Scan(&packed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, unknownBuild(err)
	case err != nil:
		return nil, err
	case len(packed) == 0:
		return nil, fault.NotFound.Newf("The build has no lock: it is not of Conda packages, or which they are was not known when it was requested")
	}
	out := &condav1.SolvePackagesResponse{}
	if err = sqldb.Unpack(packed, limits.BuildLock, out); err == nil {
		err = checkLock(out)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stored lock of %s: %w", id, err)
	}
	return out, nil
}
