// Command slipway is the command-line client of a Slipway server.
//
// It uses the public REST contract only (gateway/contract/container-service.md,
// platform.md), stores nothing between calls except logins, and shows the server's own
// error messages. Results go to standard output, everything else to standard error.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

func main() {
	if code, ok := entered(); ok { // in the namespaces of a command
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	args := arguments(os.Args)
	root := command(os.Getenv, args...)
	root.SetArgs(args)
	os.Exit(run(ctx, root))
}

// arguments returns the arguments of the command line. Under the name of another program, they begin with the command that replaces it.
func arguments(args []string) []string {
	if len(args) == 0 {
		return []string{} // not nil, for which os.Args is used
	}
	if name := filepath.Base(args[0]); slices.Contains(engines(), name) {
		return append([]string{"singularity"}, args[1:]...)
	}
	return args[1:]
}

// run executes the command and returns the exit code: 1 if it failed, 2 for an invalid
// command line, and that of a command that ran in an environment.
func run(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if code, ok := exitCode(err); ok {
		return code
	}
	if _, ok := errors.AsType[usage.Error](err); !ok {
		session.PrintError(cmd, err)
		return 1
	}
	root.PrintErrln("slipway:", err)
	root.PrintErrf("See `%s --help`.\n", cmd.CommandPath())
	return 2
}

// command returns the command line args: its first argument's command only, because creating all of them takes as long as a short command;
// all commands if the first argument is not the name of one. The function env looks up environment variables.
func command(env func(string) string, args ...string) *cobra.Command {
	s := session.Settings{Version: version}
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Request container images from a Slipway server",
		Long: `Request container images from a Slipway server.

` + "`slipway login`" + ` signs in, and stays signed in. An access token is also read from
SLIPWAY_TOKEN, or from the file that --token-file names. No flag takes the token
itself: other users of the machine can read the arguments of a process, and they
stay in the shell's history.

Only results go to standard output; messages go to standard error, without
colours. Scripts get them with -o json, yaml or name, or choose from them
with --json FIELDS and --jq EXPRESSION, which needs no jq. With JSON, the error
of a failed command is JSON, too: message, code, details. On a terminal, long
results are shown in SLIPWAY_PAGER or PAGER, if set. Exit codes: 0, success;
1, failure, also of a build that was waited for; 2, the command line is invalid,
and nothing was sent.`,
		Version:       version + " (" + commit + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage.Errorf("%w", err) })
	s.Add(root, env)
	all := constructors(env)
	if len(args) > 0 {
		if i := slices.IndexFunc(all, func(c namedConstructor) bool { return c.name == args[0] }); i >= 0 {
			all = all[i : i+1]
		}
	}
	for _, c := range all {
		root.AddCommand(c.construct(&s))
	}
	return root
}
