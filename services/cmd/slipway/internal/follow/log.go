package follow

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// ReadLog reads the current log of a build line by line.
func ReadLog(ctx context.Context, c *session.Client, id string, each func(line string)) error {
	what := session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + id + "/logs"}
	body, err := c.Open(ctx, what, http.Header{"Accept": {"text/plain"}}, time.Minute)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		each(output.PlainText(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the log: %w", c.Unanswered(err))
	}
	return nil
}
