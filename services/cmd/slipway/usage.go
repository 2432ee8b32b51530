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

// condaSpecs checks what cannot be meant: docker's way to write a version.
func condaSpecs(args []string) error {
	for _, a := range args {
		name, version, ok := strings.Cut(a, ":")
		if ok && name != "" && name != "pip" && version != "" && !strings.ContainsAny(version, ":/") && !strings.ContainsAny(name, " =<>!/") {
			return usagef("%q: a version follows =, as in %s=%s; a channel ::, as in CHANNEL::%s", a, name, version, name)
		}
	}
	return nil
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
