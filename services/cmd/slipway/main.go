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
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

// firstCollection makes the first garbage collection begin at 16 MiB instead of 4 MiB. Most commands end before, and a collection takes a tenth of
// the time of a short command. Processes that serve files set another value.
const firstCollection = 400

func main() {
	if code, ok := entered(); ok { // in the namespaces of a command
		os.Exit(code)
	}
	debug.SetGCPercent(firstCollection)
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
	root.PrintErrln(output.Problem(root), err)
	root.PrintErrf("See `%s --help`.\n", cmd.CommandPath())
	return 2
}

// flagError returns the error of an invalid flag. --json without a value lists the fields.
func flagError(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok && missing.GetFlag().Name == "json" {
		if help := output.FieldsHelp(cmd); help != "" {
			return usage.Errorf("%s", help)
		}
	}
	return usage.Errorf("%w", err)
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

` + "`slipway config`" + ` names several servers, and chooses one.

Only results go to standard output; messages go to standard error. Both have
colours on terminals only, and none with NO_COLOR. Scripts get results with -o json, yaml or name, or choose from them
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
	root.SetFlagErrorFunc(flagError)
	s.Add(root, env)
	all := constructors(env)
	if len(args) > 0 {
		if i := slices.IndexFunc(all, func(c namedConstructor) bool { return c.name == args[0] }); i >= 0 {
			all = all[i : i+1]
		}
	}
	root.AddGroup(groups()...)
	root.SetHelpCommandGroupID(string(program))
	root.SetCompletionCommandGroupID(string(program))
	output.ColourHelp(root)
	for _, c := range all {
		cmd := c.construct(&s)
		cmd.GroupID = string(c.group)
		root.AddCommand(cmd)
	}
	return root
}
