package pullthrough

import (
	"context"
	"errors"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// A place is a repository as one login sees it. Outages are noted by place, so that no client can make
// a registry count as unavailable for others.
type place struct {
	repo  upstream.Repository
	login upstream.Login
}

// isDown reports whether a registry is not to be asked about what is known: it was unavailable,
// too slow, or limited requests.
func (r *Reader) isDown(repo upstream.Repository, a upstream.Access) bool {
	until, ok := r.outages.Get(place{repo, a.Login})
	return ok && r.now().Before(until)
}

// limitWait limits how long a registry is waited for if its answer is known.
func (r *Reader) limitWait(ctx context.Context, known bool) (context.Context, context.CancelFunc) {
	if !known {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, r.wait)
}

// observe records whether a registry answered. It reports whether what is known is to be served
// because it did not. ctx is the caller's: a caller who did not wait says nothing about the
// registry.
func (r *Reader) observe(ctx context.Context, repo upstream.Repository, a upstream.Access, err error, known bool) (serve bool) {
	e, ok := fault.As(err)
	switch {
	case err == nil || isRefusal(err):
		r.outages.Delete(place{repo, a.Login})
		return false
	case !ok || !upstream.IsOutage(e):
		return false // its answer is wrong, it was not asked, or the client disconnected
	case ctx.Err() != nil:
		return known
	}
	pause := min(max(e.RetryAfter, limits.OutagePause), limits.OutagePauseMost)
	r.outages.Set(place{repo, a.Login}, r.now().Add(pause))
	if known {
		r.logOutage(repo.Host, e)
	}
	return known
}

// logOutage logs once a minute that a registry is unavailable.
func (r *Reader) logOutage(host string, e *fault.Error) {
	if at, ok := r.logged.Get(host); ok && r.now().Sub(at) < limits.OutageLog {
		return
	}
	r.logged.Set(host, r.now())
	r.log.Warn("A registry is unavailable or limits requests; what is known of its images is served", "registry", host, "err", e.Cause, "message", e.Public)
}

// isRefusal reports whether a registry answered that there is no such image for the caller.
func isRefusal(err error) bool {
	return errors.Is(err, fault.NotFound) || errors.Is(err, fault.Unauthenticated) || errors.Is(err, fault.Denied)
}

// unavailable converts the fault of an unavailable registry, whose image is not known, to one with
// which clients try again.
func unavailable(err error) error {
	e, ok := fault.As(err)
	if !ok || !upstream.IsRegistry(e) {
		return err
	}
	out := e.To(fault.Unavailable)
	out.RetryAfter = max(e.RetryAfter, limits.OutagePause)
	return out
}
