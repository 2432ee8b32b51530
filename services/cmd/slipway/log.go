package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"
)

// readLog reads the log of a build as far as it is written, a line at a time.
func readLog(ctx context.Context, c *client, id string, each func(line string)) error {
	what := call{method: http.MethodGet, path: "/v1alpha1/builds/" + id + "/logs"}
	body, err := c.open(ctx, what, http.Header{"Accept": {"text/plain"}}, time.Minute)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		each(plainText(lines.Text()))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the log: %w", c.unanswered(err))
	}
	return nil
}
