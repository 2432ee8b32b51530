package main

import (
	"fmt"

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
func knownCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("there is no command %q", args[0])
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
