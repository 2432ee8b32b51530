package pullthrough

import (
	"context"
	"errors"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// An outage is the time until which a registry is not asked about what is known: it was
// unavailable, too slow, or limited requests.
type outage struct {
	until time.Time
	// served reports whether known content was served since it began.
	served bool
}

// isDown reports whether a registry is not to be asked about what is known.
func (r *Reader) isDown(host string) bool {
	o, ok := r.outages.GetIfPresent(host)
	return ok && r.now().Before(o.until)
}

// patience limits how long a registry is waited for if its answer is known.
func (r *Reader) patience(ctx context.Context, known bool) (context.Context, context.CancelFunc) {
	if !known {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limits.StaleAfter)
}

// observe records whether a registry answered. It reports whether what is known is to be served
// because it did not. ctx is the caller's: a caller who did not wait says nothing about the
// registry.
func (r *Reader) observe(ctx context.Context, host string, err error, known bool) (serve bool) {
	old, had := r.outages.GetIfPresent(host)
	if err == nil || isRefusal(err) {
		if had {
			r.outages.Invalidate(host)
			if old.served {
				r.log.Info("A registry answers again", "registry", host)
			}
		}
		return false
	}
	e, ok := fault.As(err)
	if !ok || !upstream.IsRegistry(e) {
		return false // it was not asked, or the client disconnected
	}
	if ctx.Err() != nil {
		return known
	}
	pause := min(max(e.RetryAfter, limits.OutagePause), limits.OutagePauseMost)
	r.outages.Set(host, outage{until: r.now().Add(pause), served: old.served || known})
	if known && !old.served {
		r.log.Warn("A registry is unavailable or limits requests; what is known of its images is served", "registry", host, "err", e.Cause, "message", e.Public)
	}
	return known
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
