// Command slipway is the client: it asks a server for images, and about images.
//
// It speaks the public REST contract (gateway/contract/container-service.md,
// platform.md) and nothing else, keeps nothing between two calls but the logins, and
// shows the server's own words when it is refused. Results go to standard output,
// alone; what went wrong goes to standard error.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/account"
	"slipway.dev/services/cmd/slipway/internal/conda"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/runs"
	"slipway.dev/services/cmd/slipway/internal/server"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Set when the program is linked.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, command(os.Getenv)))
}

// run executes the command and answers the exit code: 1 for work that went
// wrong, 2 for a command line that cannot be understood.
func run(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	root.PrintErrln("slipway:", err)
	if _, ok := errors.AsType[usage.Error](err); !ok {
		return 1
	}
	root.PrintErrf("See `%s --help`.\n", cmd.CommandPath())
	return 2
}

// command returns the whole command line; env looks up environment variables.
func command(env func(string) string) *cobra.Command {
	s := session.Settings{Version: version}
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Ask a Slipway server for container images",
		Long: `Ask a Slipway server for container images.

` + "`slipway login`" + ` signs in, and stays signed in. An access token is also read from
SLIPWAY_TOKEN, or from the file that --token-file names. No flag takes the token
itself: the arguments of a process can be read by everybody on the machine, and
stay in the shell's history.

Results go to standard output, alone; what is said about them to standard error,
without colours. Scripts take them with -o json, yaml or name, or choose from them
with --json FIELDS and --jq EXPRESSION, which needs no jq. On a terminal, what may be
long is shown in SLIPWAY_PAGER or PAGER, where one is set. Exit codes: 0, it worked; 1, it did not, or a build that was
waited for made no image; 2, the command line was not understood, and nothing was
sent.`,
		Version:       version + " (" + commit + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.KnownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage.Errorf("%w", err) })
	s.Add(root, env)
	root.AddCommand(
		image.Command(&s), image.Build(&s), conda.Command(&s), s.Paged(image.Inspect(&s)),
		s.Paged(conda.Search(&s)), conda.Lock(&s), s.Paged(conda.Explain(&s)),
		image.Get(&s), image.Pull(&s), image.Status(&s), s.Paged(image.Describe(&s)), image.Revoke(&s),
		s.Paged(image.Containers(&s)), s.Paged(image.Builds(&s)), s.Paged(image.Logs(&s)), image.Open(&s, env), server.Metrics(&s, env), server.Info(&s),
		session.Login(&s), session.Logout(&s), session.Whoami(&s),
		account.Tokens(&s), account.Workspaces(&s), account.Credentials(&s), runs.Command(&s),
	)
	root.AddCommand(account.Org(&s), account.Workspace(&s), account.Member(&s), versionCommand())
	return root
}
