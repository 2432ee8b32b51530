package build

import (
	"context"
	"errors"
	"fmt"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/internal/fault"
)

// A lock contains the Conda packages that a request resolved to when it was submitted. The
// engine conda builds the image from it. A build that installs packages with a generated
// Dockerfile resolves them again, from channels that may have changed since; its lock is
// only shown to users.

// GetBuildLock returns the lock of a build, or of the builds whose images it uses. It
// returns fault.NotFound if one is unknown.
func (s *Service) GetBuildLock(ctx context.Context, req *buildv1.GetBuildLockRequest) (*buildv1.GetBuildLockResponse, error) {
	rec, err := s.read(ctx, req.GetBuildId())
	if err != nil {
		return nil, err
	}
	locks, err := s.locks(ctx, rec)
	if err != nil {
		return nil, err
	}
	out := &buildv1.GetBuildLockResponse{}
	if req.GetFormat() == "" {
		for _, l := range locks {
			out.Locks = append(out.Locks, l.GetAnswer().GetLocks()...)
		}
		return out, nil
	}
	file, err := lockfile.Solved(locks)
	if err != nil {
		return nil, fmt.Errorf("reading the lock of %s: %w", rec.ID, err)
	}
	text, err := file.Text(lockfile.Format(req.GetFormat()))
	if err != nil {
		return nil, err
	}
	out.Text = &text
	return out, nil
}

// locks returns the locks of a build, or of all builds whose images it uses.
func (s *Service) locks(ctx context.Context, rec store.Record) ([]*condav1.SolvePackagesResponse, error) {
	ids := rec.Request.GetPartIds()
	if len(ids) == 0 {
		ids = []string{rec.ID}
	}
	var out []*condav1.SolvePackagesResponse
	for _, id := range ids {
		l, err := s.store.Lock(ctx, id)
		switch {
		case errors.Is(err, fault.NotFound):
			return nil, err
		case err != nil:
			return nil, s.store.Fault("reading a lock", err)
		case l.GetPrivate(): // any client that knows the build's id could read it
			return nil, fault.NotFound.Newf("The lock of the build is not shown, since a channel was read with a login")
		}
		out = append(out, l)
	}
	return out, nil
}

// lockRecords returns the records of a lock for one platform as a JSON list; "" for a lock
// for several platforms or nil.
func lockRecords(l *condav1.SolvePackagesResponse) string {
	if len(l.GetRecords()) != 1 {
		return ""
	}
	return l.GetRecords()[0]
}
