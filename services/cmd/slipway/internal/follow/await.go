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

// Await follows the builds of a request until its image exists. An image for two platforms
// has two builds, and the request's status names the one that it waits for.
func Await(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, show *Console) error {
	return show.during(func() error { return untilMade(ctx, c, res, show) })
}

// untilMade follows one build after another.
func untilMade(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, show *Console) error {
	followed := map[string]bool{"": true}
	for id := res.GetBuildId(); ; {
		if !followed[id] {
			followed[id] = true
			if err := untilEnded(ctx, c, res, id, show); err != nil {
				return err
			}
		}
		if res.GetRequestId() == "" {
			return nil
		}
		now, err := statusOf(ctx, c, res.GetRequestId())
		if err != nil {
			return comeBack(ctx, res, id, err)
		}
		if now.GetStatus() == "DONE" {
			return (&ending{Succeeded: now.GetSucceeded(), ReasonCode: now.GetReasonCode()}).fault(now.GetBuildId())
		}
		if id = now.GetBuildId(); followed[id] && !pause(ctx) {
			return comeBack(ctx, res, id, ctx.Err())
		}
	}
}

// untilEnded follows one build.
func untilEnded(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, id string, show *Console) error {
	if err := show.foresee(ctx, c, id); err != nil {
		return err
	}
	end, err := newFollower(c, id, show.show).run(ctx)
	if err != nil {
		return comeBack(ctx, res, id, err)
	}
	return end.fault(id)
}

// statusOf returns the status of a request.
func statusOf(ctx context.Context, c *session.Client, request string) (*containerv1.GetContainerStatusResponse, error) {
	now := &containerv1.GetContainerStatusResponse{}
	if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha2/container/" + request + "/status"}, now); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	return now, nil
}

// pause waits a second; it returns false if the context ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// comeBack returns an error that says how to follow a build which continues.
func comeBack(ctx context.Context, res *containerv1.SubmitContainerResponse, id string, err error) error {
	why := err.Error()
	if ctx.Err() != nil {
		why = "interrupted"
	}
	lines := []string{why + "; the build continues. See more with", "  slipway logs " + id + " -f"}
	if res.GetRequestId() != "" {
		lines = append(lines, "  slipway status "+res.GetRequestId())
	}
	lines = append(lines, "The image will be "+res.GetTargetImage())
	for i, l := range lines {
		lines[i] = output.Printable(l)
	}
	return errors.New(strings.Join(lines, "\n"))
}
