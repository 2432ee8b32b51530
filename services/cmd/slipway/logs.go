package main

import (
	"bufio"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func logsCommand(s *settings) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log of a build",
		Long: `Show the log of a build.

` + idForms + `
With -f the log is shown as it is written, across broken connections, until the
build ends; the exit code then tells whether it made its image.`,
		Example:           "  slipway logs 3f2a5b6c7d8e9f01_1\n  slipway logs 3f2a5b6c7d8e9f01_1 -f",
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			id, err := c.buildOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if follow {
				return c.followLog(cmd, id, s.console(cmd.OutOrStdout(), false))
			}
			return c.printLog(cmd, id)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Stay until the build ends.")
	return cmd
}

func (c *client) followLog(cmd *cobra.Command, id string, show *console) error {
	return show.during(func() error {
		end, err := c.follower(id, show.show).run(cmd.Context())
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		return end.fault(id)
	})
}

func (c *client) printLog(cmd *cobra.Command, id string) error {
	what := call{method: http.MethodGet, path: "/v1alpha1/builds/" + id + "/logs"}
	body, err := c.open(cmd.Context(), what, http.Header{"Accept": {"text/plain"}}, time.Minute)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	out := bufio.NewWriter(cmd.OutOrStdout())
	for lines.Scan() {
		_, _ = fmt.Fprintln(out, plainText(lines.Text())) // Flush tells
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("printing the log: %w", err)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the log: %w", c.unanswered(err))
	}
	return nil
}
