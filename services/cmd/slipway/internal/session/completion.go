package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// completionTimeout is the timeout of shell completion.
const completionTimeout = 3 * time.Second

// Completions requests shell completions from the server; none if it does not respond.
func (s *Settings) Completions(list func(context.Context, *Client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := s.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values, err := list(ctx, c)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// CompleteFlag returns a value and its description, both of which may be external text.
func CompleteFlag(value, meaning string) cobra.Completion {
	return cobra.CompletionWithDesc(output.Printable(value), output.Printable(meaning))
}
