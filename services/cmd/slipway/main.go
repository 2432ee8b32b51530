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
	"syscall"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/account"
	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/bundle"
	"slipway.dev/services/cmd/slipway/internal/conda"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/nfcore"
	"slipway.dev/services/cmd/slipway/internal/runs"
	"slipway.dev/services/cmd/slipway/internal/server"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/snakemake"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/cmd/slipway/internal/verify"
)

// Set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	os.Exit(run(ctx, command(os.Getenv)))
}

// run executes the command and returns the exit code: 1 if it failed, 2 for an invalid
// command line.
func run(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if _, ok := errors.AsType[usage.Error](err); !ok {
		session.PrintError(cmd, err)
		return 1
	}
	root.PrintErrln("slipway:", err)
	root.PrintErrf("See `%s --help`.\n", cmd.CommandPath())
	return 2
}

// command returns the whole command line. The function env looks up environment variables.
func command(env func(string) string) *cobra.Command {
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
	root.AddCommand(
		image.Command(&s), image.Mirror(&s), image.Build(&s), conda.Command(&s), batch.Command(&s), bundle.Command(&s), snakemake.Command(&s), nfcore.Command(&s), s.Paged(image.Inspect(&s)), image.SBOM(&s), verify.Command(&s),
		s.Paged(conda.Search(&s)), conda.Lock(&s), s.Paged(conda.Explain(&s)), s.Paged(conda.Licenses(&s)),
		image.Get(&s), image.Pull(&s), image.Status(&s), s.Paged(image.Describe(&s)), image.Revoke(&s),
		s.Paged(image.Containers(&s)), s.Paged(image.Builds(&s)), s.Paged(image.Logs(&s)), image.Open(&s, env), server.Metrics(&s, env), server.Info(&s),
		session.Login(&s), session.Logout(&s), session.Whoami(&s),
		account.Tokens(&s), account.Robots(&s), account.Webhooks(&s), account.Limits(&s), account.Workspaces(&s), account.Credentials(&s), runs.Command(&s),
	)
	root.AddCommand(account.Org(&s), account.Workspace(&s), account.Member(&s), s.Paged(account.Audit(&s)), s.Paged(account.Usage(&s)), versionCommand())
	return root
}
