package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/services/internal/config"
)

func configCommand() *cobra.Command {
	var markdown, explain bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in effect, and check them",
		Long: `Print the settings in effect, as a file for --config, and check them.

If settings are invalid, only the errors are printed, all of them. Passwords in
addresses are omitted.`,
		Example: "  slipwayd config --explain > slipwayd.yaml\n  slipwayd config --config slipwayd.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				fmt.Fprint(cmd.OutOrStdout(), config.Page())
				return nil
			}
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), config.File(&cfg, explain))
			return nil
		},
	}
	cmd.Flags().BoolVar(&explain, "explain", false, "Add a comment above each setting.")
	cmd.Flags().BoolVar(&markdown, "markdown", false, "Print the reference of all settings instead.")
	return cmd
}
