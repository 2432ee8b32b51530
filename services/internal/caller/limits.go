package caller

import (
	"context"
	"log/slog"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/ratelimit"
)

// LimitsSubject is the subject on which the platform publishes, with an empty message, that the
// limit of an organisation, a workspace or a user has changed.
const LimitsSubject = "platform.limits"

const (
	// limitsTTL is how long limits are used before they are read again. A change whose message was
	// missed takes effect within this time.
	limitsTTL = 30 * time.Second
	// limitsPause is how long a process waits after it could not read them.
	limitsPause = time.Second
	// limitsTimeout is the timeout of reading them.
	limitsTimeout = 10 * time.Second
)

// A LimitsFollower gives a Limiter the limits of single organisations, workspaces and users.
// Changes apply within seconds. While the platform is unavailable the last limits apply; after a
// start, until they have been read, only those of the settings.
type LimitsFollower struct {
	Platform platformv1.AccessServiceClient
	Limiter  *ratelimit.Limiter
	// Changed wakes the follower; it has a capacity of 1.
	Changed <-chan struct{}
	Log     *slog.Logger
}

// Run follows the limits until ctx ends.
func (f LimitsFollower) Run(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		pause := limitsTTL
		err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = limitsPause
			if !failed {
				f.Log.WarnContext(ctx, "The limits of organisations, workspaces and users cannot be read; the last known ones apply", "err", err)
			}
		case failed:
			f.Log.InfoContext(ctx, "The limits of organisations, workspaces and users are read again")
		}
		failed = err != nil
		next := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-next.C:
		case <-f.Changed:
		}
		next.Stop()
	}
}

// read reads all limits into the limiter.
func (f LimitsFollower) read(ctx context.Context) error {
	own, err := ReadLimits(ctx, f.Platform, f.Log)
	if err == nil {
		f.Limiter.SetOwn(own)
	}
	return err
}

// ReadLimits reads the limits of all organisations, workspaces and users from the platform. It logs
// and ignores limits that this release cannot parse.
func ReadLimits(ctx context.Context, platform platformv1.AccessServiceClient, log *slog.Logger) (ratelimit.Own, error) {
	ctx, cancel := context.WithTimeout(ctx, limitsTimeout)
	defer cancel()
	resp, err := platform.GetLimits(ctx, &platformv1.GetLimitsRequest{})
	if err != nil {
		return ratelimit.Own{}, err
	}
	own := ratelimit.Own{Endpoint: resp.GetEndpoint()}
	for _, l := range resp.GetLimits() {
		subject := ratelimit.Subject{Of: ratelimit.Category(l.GetOf()), ID: l.GetId()}
		if err := own.Add(subject, ratelimit.Kind(l.GetKind()), l.GetValue()); err != nil {
			log.WarnContext(ctx, "A limit is unknown to this release, and is ignored", "of", l.GetOf(), "id", l.GetId(), "kind", l.GetKind(), "err", err)
		}
	}
	return own, nil
}
