package follow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// Await shows the builds of a request until its image is there. An image for two
// platforms has two builds, and the request's status names the one that it waits
// for.
func Await(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, show *Console) error {
	return show.during(func() error { return untilMade(ctx, c, res, show) })
}

// untilMade follows one build after another.
func untilMade(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, show *Console) error {
	followed := map[string]bool{}
	for id := res.GetBuildId(); ; {
		if id != "" && !followed[id] {
			followed[id] = true
			end, err := newFollower(c, id, show.show).run(ctx)
			if err != nil {
				return comeBack(ctx, res, id, err)
			}
			if err := end.fault(id); err != nil {
				return err
			}
		}
		if res.GetRequestId() == "" {
			return nil
		}
		var now containerv1.GetContainerStatusResponse
		if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha2/container/" + res.GetRequestId() + "/status"}, &now); err != nil {
			return comeBack(ctx, res, id, fmt.Errorf("reading the status: %w", err))
		}
		if now.GetStatus() == "DONE" {
			return (&ending{Succeeded: now.GetSucceeded(), Reason: now.GetReason()}).fault(now.GetBuildId())
		}
		if id = now.GetBuildId(); id == "" || followed[id] {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return comeBack(ctx, res, id, ctx.Err())
			}
		}
	}
}

// comeBack says how to see more of a build that goes on without us.
func comeBack(ctx context.Context, res *containerv1.SubmitContainerResponse, id string, err error) error {
	why := err.Error()
	if ctx.Err() != nil {
		why = "interrupted"
	}
	lines := []string{why + "; the build goes on. See more with", "  slipway logs " + id + " -f"}
	if res.GetRequestId() != "" {
		lines = append(lines, "  slipway status "+res.GetRequestId())
	}
	lines = append(lines, "The image will be "+res.GetTargetImage())
	for i, l := range lines {
		lines[i] = output.Printable(l)
	}
	return errors.New(strings.Join(lines, "\n"))
}
