package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is a command line that cannot be understood. Nothing was sent.
type usageError struct{ error }

// Unwrap returns what is wrong with it.
func (e usageError) Unwrap() error { return e.error }

func usagef(text string, args ...any) error {
	return usageError{fmt.Errorf(text, args...)}
}

// knownCommand stands where a command was expected.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q; did you mean `%s %s`?", args[0], cmd.CommandPath(), strings.Join(near, "`, `"+cmd.CommandPath()+" "))
	}
	return usagef("there is no command %q", args[0])
}

// atMostOne checks that a command got one argument or none.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%d arguments instead of one; write it as `%s`", len(args), cmd.UseLine())
	}
	return nil
}

// exactly checks that a command got n arguments.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%d arguments instead of %d; write it as `%s`", len(args), n, cmd.UseLine())
		}
		return nil
	}
}

// atLeastOne checks that a command got an argument.
func atLeastOne(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("something has to be named; write it as `%s`", strings.TrimSpace(cmd.UseLine()))
	}
	return nil
}

// group is a command that only has others below it.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}
