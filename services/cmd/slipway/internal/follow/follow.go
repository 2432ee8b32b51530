// Package follow shows running builds and their logs.
package follow

import (
	"context"
	"errors"
	"fmt"

	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// Build follows a build until it ends and returns its failure.
func Build(ctx context.Context, c *session.Client, id string, show *Console) error {
	return show.during(func() error {
		if err := show.showExpected(ctx, c, id); err != nil {
			return err
		}
		end, err := c.Follow(ctx, id, show.event)
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		return failure(end.Err(id))
	})
}

// failure returns the failure of a build as printable text; other errors are unchanged.
func failure(err error) error {
	if failed, ok := errors.AsType[*client.BuildError](err); ok {
		return errors.New(output.PrintableLines(failed.Error()))
	}
	return err
}

// ReadLog reads the current log of a build line by line.
func ReadLog(ctx context.Context, c *session.Client, id string, each func(line string)) error {
	if err := c.Log(ctx, id, func(line string) { each(output.PlainText(line)) }); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	return nil
}
