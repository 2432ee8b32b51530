package account

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Workspaces is `slipway workspaces`.
func Workspaces(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "workspaces",
		Short:             "Show the workspaces that you work in",
		Long:              "Show the workspaces that you work in. Credentials and runs are kept in one of\nthem, or in your own, which has no name.",
		Example:           "  slipway workspaces\n  slipway runs list --workspace lab/rnaseq",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd)
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		raw, list, err := c.Workspaces(cmd.Context())
		if err != nil {
			return fmt.Errorf("listing the workspaces: %w", err)
		}
		t := output.Table{{"ID", "WORKSPACE", "VISIBILITY", "ROLE"}}
		for _, w := range list {
			if w.GetWorkspaceId() != nil {
				t = append(t, []string{output.Tallied(w.GetWorkspaceId().GetValue()), session.FullWorkspace(w), w.GetVisibility().GetValue(), strings.Join(w.GetRoles(), ", ")})
			}
		}
		return format.List(cmd, raw, t, "No workspaces yet. `slipway workspace create ORGANISATION/NAME` makes one; without one everything is in your own.")
	})
	return cmd
}
