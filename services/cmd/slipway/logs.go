package main

import (
	"bufio"
	"fmt"

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
				return c.followLog(cmd, id, newConsole(cmd.OutOrStdout(), s.isLive(cmd.OutOrStdout()), false))
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
	out := bufio.NewWriter(cmd.OutOrStdout())
	err := readLog(cmd.Context(), c, id, func(line string) { _, _ = fmt.Fprintln(out, line) }) // Flush tells
	if flushed := out.Flush(); flushed != nil {
		return fmt.Errorf("printing the log: %w", flushed)
	}
	return err
}
