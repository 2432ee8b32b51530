package image

import (
	"bufio"
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Logs returns `slipway logs`.
func Logs(s *session.Settings) *cobra.Command {
	var stay bool
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show the log of a build",
		Long: `Show the log of a build.

` + idForms + `
With -f the log is shown as it is written, across broken connections, until the
build ends; the exit code then reports whether it succeeded.`,
		Example:           "  slipway logs 3f2a5b6c7d8e9f01_1\n  slipway logs 3f2a5b6c7d8e9f01_1 -f",
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			id, err := BuildOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if stay {
				return follow.Build(cmd.Context(), c, id, follow.NewConsole(cmd.OutOrStdout(), s.IsLive(cmd.OutOrStdout()), false))
			}
			return printLog(cmd, c, id)
		}),
	}
	cmd.Flags().BoolVarP(&stay, "follow", "f", false, "Follow the log until the build ends.")
	return cmd
}

func printLog(cmd *cobra.Command, c *session.Client, id string) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	err := follow.ReadLog(cmd.Context(), c, id, func(line string) { _, _ = fmt.Fprintln(out, line) }) // Flush returns the error
	if flushed := out.Flush(); flushed != nil {
		return fmt.Errorf("printing the log: %w", flushed)
	}
	return err
}
