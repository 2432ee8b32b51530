// Command slipwayd is the server: it plays all roles, or those it is told to.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/config"
)

// Set when the program is linked.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "slipwayd:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "slipwayd",
		Short:         "Serve container images on demand",
		Version:       version + " (" + commit + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	config.AddFlags(root.PersistentFlags())
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error { // a template would call methods by name: see TestLinkedSparingly
		defer fmt.Fprint(cmd.OutOrStderr(), "\nEvery setting is a flag: \"slipwayd config --explain\" says what they are.\n")
		return usage(cmd)
	})
	root.AddCommand(versionCommand(), serveCommand(), migrateCommand(), configCommand(), doctorCommand(), metricsCommand(), imagesCommand(), condaCommand(), buildkitdCommand(), userCommand(), tokenCommand(), keysCommand())
	return root
}

func load(cmd *cobra.Command) (config.Config, error) {
	unknown, misspelt := config.Misspelt(os.Environ())
	for _, name := range unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "slipwayd: the variable %s is no setting, and has no effect\n", name)
	}
	cfg, err := config.Load(cmd.Flags(), os.LookupEnv)
	return cfg, errors.Join(err, misspelt)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print this program's version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "slipwayd %s (%s), %s/%s\n", version, commit, runtime.GOOS, runtime.GOARCH)
		},
	}
}

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve [role...]",
		Short: "Play all roles in one process, or some of them",
		Long: `Play all roles in one process, or some of them.

Without roles everything runs here: what no URL names is embedded, and kept in
data_dir. A process that plays some roles shares database, Redis and NATS with
the others, and is told where they are.`,
		Example:   "  slipwayd serve\n  slipwayd serve registry --redis-url redis://redis:6379 --nats-url nats://nats:4222 --container-addr container:9095 --platform-addr platform:9095",
		ValidArgs: app.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			log, end := app.OpenLog(os.Stderr, cfg)
			defer end()
			logSettings(log, &cfg)
			a, err := app.New(cmd.Context(), cfg, args, app.Build{Version: version, Commit: commit}, log)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), a.Banner())
			if t := a.FirstToken(); t != "" && app.IsTerminal(os.Stdout) {
				fmt.Fprintf(cmd.OutOrStdout(), "Your access token, shown this once:\n  export SLIPWAY_TOKEN=%s\n\n", t)
			}
			return a.Run(cmd.Context())
		},
	}
}

// logSettings writes the values in effect, without the secret ones; for a person only
// those that somebody set.
func logSettings(log *slog.Logger, cfg *config.Config) {
	few := app.ForPeople(os.Stderr, *cfg)
	var attrs []any
	for _, f := range config.Fields(cfg) {
		if !few || f.String() != f.Default && f.Default != "" || f.Default == "" && f.String() != "" && !strings.HasSuffix(f.Key, "_url") {
			attrs = append(attrs, f.Key, f.String())
		}
	}
	log.Info("Settings", attrs...)
}

func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of database_url to this version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := app.Migrate(cmd.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The tables are current.")
			return nil
		},
	}
}

func metricsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "metrics",
		Short: "Print the reference of all metrics, in Markdown",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := app.MetricsPage(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), page)
			return nil
		},
	}
}
