// Package usage checks command lines and completes them in shells. It calls no server.
package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Error is returned for an invalid command line. No request was sent.
type Error struct{ error }

// Unwrap returns the wrapped error.
func (e Error) Unwrap() error { return e.error }

// Errorf returns an Error.
func Errorf(text string, args ...any) error {
	return Error{fmt.Errorf(text, args...)}
}

// KnownCommand checks the arguments of a command that only has subcommands.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Errorf("there is no command %q; did you mean `%s %s`?", args[0], cmd.CommandPath(), strings.Join(near, "`, `"+cmd.CommandPath()+" "))
	}
	return Errorf("there is no command %q", args[0])
}

// AtMostOne checks that a command got at most one argument.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return Errorf("%d arguments instead of 1; write it as `%s`", len(args), cmd.UseLine())
	}
	return nil
}

// Exactly checks that a command got n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			what := "arguments"
			if len(args) == 1 {
				what = "argument"
			}
			return Errorf("%d %s instead of %d; write it as `%s`", len(args), what, n, cmd.UseLine())
		}
		return nil
	}
}

// AtLeast checks that a command got n arguments or more.
func AtLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return Errorf("an argument is missing; write it as `%s`", strings.TrimSpace(cmd.UseLine()))
		}
		return nil
	}
}

// Group returns a command that only has subcommands.
func Group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}
