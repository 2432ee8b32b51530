package build

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// packLock is a lock as it is stored; nil for none.
func packLock(l *condav1.SolvePackagesResponse) ([]byte, error) {
	if l == nil {
		return nil, nil
	}
	raw, err := proto.Marshal(l)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(raw)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

func unpackLock(packed []byte) (*condav1.SolvePackagesResponse, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, limits.BuildLock+1))
	if err != nil {
		return nil, err
	}
	out := &condav1.SolvePackagesResponse{}
	if err := proto.Unmarshal(raw, out); err != nil {
		return nil, err
	}
	return out, checkLock(out)
}

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
	out, err := unpackLock(packed)
	if err != nil {
		return nil, fmt.Errorf("reading the stored lock of %s: %w", id, err)
	}
	return out, nil
}
