package follow

import (
	"context"
	"errors"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// Await follows the builds of a request until its image exists.
func Await(ctx context.Context, c *session.Client, res *containerv1.SubmitContainerResponse, show *Console) error {
	return show.during(func() error {
		err := c.Wait(ctx, res.GetRequestId(), res.GetBuildId(), client.Watch{
			Begin: func(ctx context.Context, id string) error { return show.showExpected(ctx, c, id) },
			Event: show.event,
		})
		if w, ok := errors.AsType[*client.WaitError](err); ok {
			return resumeError(ctx, res, w.BuildID, w.Err)
		}
		return failure(err)
	})
}

// resumeError returns an error with the commands to follow a build that continues.
func resumeError(ctx context.Context, res *containerv1.SubmitContainerResponse, id string, err error) error {
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
