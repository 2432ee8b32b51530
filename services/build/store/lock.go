package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/sqldb"
)

// Lock returns the lock of a build, or fault.NotFound.
func (s Store) Lock(ctx context.Context, id string) (*condav1.SolvePackagesResponse, error) {
	var packed []byte
	err := s.db.QueryRowContext(ctx, `SELECT conda_lock FROM build_builds WHERE id = $1`, id).Scan(&packed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, UnknownBuild(err)
	case err != nil:
		return nil, err
	case len(packed) == 0:
		return nil, fault.NotFound.Newf("The build has no lock: it installs no Conda packages, or they were not solved before the build")
	}
	out := &condav1.SolvePackagesResponse{}
	if err = sqldb.Unpack(packed, limits.BuildLock, out); err == nil {
		err = CheckLock(out)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the stored lock of %s: %w", id, err)
	}
	return out, nil
}

// CheckLock validates a lock before it is stored. A nil lock is valid.
func CheckLock(l *condav1.SolvePackagesResponse) error {
	n := len(l.GetAnswer().GetLocks())
	switch {
	case l == nil:
		return nil
	case n == 0 || len(l.GetRecords()) != n || len(l.GetSubdirs()) != n:
		return fault.Invalid.Newf("The build's lock is malformed")
	case proto.Size(l) > limits.BuildLock:
		return fault.Invalid.Newf("The build's lock has %d bytes, and may have %d", proto.Size(l), limits.BuildLock)
	}
	return nil
}
