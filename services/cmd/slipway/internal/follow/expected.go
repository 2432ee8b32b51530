package follow

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// Expected describes when a build is likely to begin and to end, in seconds from now; 0 is
// now, or unknown. It returns "" if nothing is known.
func Expected(start, end float64) string {
	switch {
	case end <= 0:
		return ""
	case start >= 1:
		return fmt.Sprintf("to begin in about %s, to end in about %s", about(start), about(end))
	}
	return "to end in about " + about(end)
}

// about formats a duration with the precision of an estimate.
func about(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= 2*time.Minute {
		return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%d s", max(1, int(d.Round(time.Second).Seconds())))
}

// showExpected shows a build's place in the queue and its likely end, if known. Errors of the
// server are ignored: the build is followed anyway.
func (c *Console) showExpected(ctx context.Context, server *session.Client, id string) error {
	if !c.phases {
		return nil
	}
	var now buildv1.GetBuildStatusResponse
	if _, err := server.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + id + "/status"}, &now); err != nil {
		return nil //nolint:nilerr // see above
	}
	var parts []string
	if n := now.GetPosition(); n > 0 {
		parts = append(parts, fmt.Sprintf("place %d in the queue", n))
	}
	if text := Expected(now.GetExpectedStart(), now.GetExpectedEnd()); text != "" {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return nil
	}
	if err := c.write("==> " + strings.Join(parts, ", ") + "\n"); err != nil {
		return fmt.Errorf("printing the log: %w", err)
	}
	return nil
}
