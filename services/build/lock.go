package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// A lock is what a request's Conda packages stood for when it was made. The engine
// conda makes the image of it. What is built from a generated Dockerfile alone resolves
// its packages again, from channels that may have changed since: there a lock is shown,
// and decides nothing.

// GetBuildLock returns the lock of a build; of one that is made of others, theirs.
// fault.NotFound where one is not known.
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
	file, err := lockFile(locks)
	if err != nil {
		return nil, fmt.Errorf("reading the lock of %s: %w", rec.ID, err)
	}
	text, err := file.Text(conda.LockFormat(req.GetFormat()))
	if err != nil {
		return nil, err
	}
	out.Text = &text
	return out, nil
}

// locks are those of a build, or of the builds that it is made of: of all or of none.
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
		case l.GetPrivate(): // whoever knows the build's id could read it
			return nil, fault.NotFound.Newf("The lock of the build is not shown, since a channel was read with a login")
		}
		out = append(out, l)
	}
	return out, nil
}

// lockRecords are the records of a lock for one platform, as a list in JSON.
func lockRecords(l *condav1.SolvePackagesResponse) string {
	if len(l.GetRecords()) != 1 {
		return ""
	}
	return l.GetRecords()[0]
}

// lockFile is what is written down of locks.
func lockFile(locks []*condav1.SolvePackagesResponse) (conda.Lock, error) {
	out := conda.Lock{Channels: locks[0].GetChannels()} // one request named them
	for _, l := range locks {
		for i, raw := range l.GetRecords() {
			p := conda.PlatformLock{Platform: l.GetSubdirs()[i]}
			if err := json.Unmarshal([]byte(raw), &p.Packages); err != nil {
				return out, err
			}
			out.Platforms = append(out.Platforms, p)
		}
	}
	return out, nil
}
