package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completePatience is how long a shell waits for a server's values.
const completePatience = 3 * time.Second

// offers asks the server what a shell may offer; nothing when it does not answer.
func (s *settings) offers(list func(context.Context, *client) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
		defer cancel()
		c, err := s.client()
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

// offer is a value and what it stands for. Both may be written by strangers.
func offer(value, meaning string) cobra.Completion {
	return cobra.CompletionWithDesc(printable(value), printable(meaning))
}
