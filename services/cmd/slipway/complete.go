package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completePatience is how long a shell waits for a server's values.
const completePatience = 3 * time.Second

// complete has a shell offer these values for a flag, and no file names.
func complete(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	registerFlag(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func registerFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// completeDir has a shell offer directories, and files that end as told.
func completeDir(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagDirname(flag); err != nil {
		panic(err) // the flag is not there: a mistake in this program
	}
}

// completeFlag has a shell offer what the server has for a flag.
func completeFlag(cmd *cobra.Command, flag string, s *settings, list func(context.Context, *client) ([]cobra.Completion, error)) {
	registerFlag(cmd, flag, s.offers(list))
}

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
