package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func workspacesCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "workspaces",
		Short:             "Show the workspaces that you work in",
		Long:              "Show the workspaces that you work in. Credentials and runs are kept in one of\nthem, or in your own, which has no name.",
		Example:           "  slipway workspaces\n  slipway runs list --workspace lab/rnaseq",
		Args:              exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		raw, list, err := c.workspaces(cmd.Context())
		if err != nil {
			return fmt.Errorf("listing the workspaces: %w", err)
		}
		t := table{{"ID", "WORKSPACE", "VISIBILITY", "ROLE"}}
		for _, w := range list {
			if w.GetWorkspaceId() != nil {
				t = append(t, []string{tallied(w.GetWorkspaceId().GetValue()), fullWorkspace(w), w.GetVisibility().GetValue(), strings.Join(w.GetRoles(), ", ")})
			}
		}
		return output.list(cmd, raw, t, "No workspaces yet. `slipway workspace create ORGANISATION/NAME` makes one; without one everything is in your own.")
	}
	return cmd
}
