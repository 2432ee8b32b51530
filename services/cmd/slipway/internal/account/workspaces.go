package account

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Workspaces returns `slipway workspaces`.
func Workspaces(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "workspaces",
		Short:             "List your workspaces",
		Long:              "List your workspaces. Credentials and runs are stored in one of them, or in your\npersonal workspace, which has no name.",
		Example:           "  slipway workspaces\n  slipway runs list --workspace lab/rnaseq",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, &platformv1.ListUserWorkspacesResponse{})
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
		return format.List(cmd, raw, t, "No workspaces yet. `slipway workspace create ORGANISATION/NAME` creates one; without one everything is in your personal workspace.")
	})
	return cmd
}
