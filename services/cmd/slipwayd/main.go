// Command slipwayd is the server. It runs all roles, or the given ones.
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
	"slipway.dev/services/app/transfer"
	"slipway.dev/services/internal/config"
)

// Set by the linker.
var (
	version = "0.0.0-dev"
	commit  = "unknown" //nolint:gochecknoglobals // the linker sets it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), append(hangups(), syscall.SIGINT, syscall.SIGTERM)...)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
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
		defer fmt.Fprint(cmd.OutOrStderr(), "\nEvery setting is a flag: \"slipwayd config --explain\" describes them.\n")
		return usage(cmd)
	})
	root.AddCommand(versionCommand(), serveCommand(), migrateCommand(), backupCommand(), restoreCommand(), configCommand(), doctorCommand(), metricsCommand(), imagesCommand(), condaCommand(), buildkitdCommand(), workersCommand(), rebuildsCommand(), userCommand(), tokenCommand(), keysCommand(), auditCommand())
	return root
}

func load(cmd *cobra.Command) (config.Config, error) {
	unknown, misspelt := config.Misspelt(os.Environ())
	for _, name := range unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "slipwayd: the variable %s is not a setting and has no effect\n", name)
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
		Short: "Run all roles in one process, or some of them",
		Long: `Run all roles in one process, or some of them.

Without roles everything runs here: dependencies without a URL run embedded and store
their data in data_dir. A process with some roles shares the database, Redis and NATS
with the others, and needs the addresses of the other roles.`,
		Example:   "  slipwayd serve\n  slipwayd serve registry --redis-url redis://redis:6379 --nats-url nats://nats:4222 --container-addr container:9095 --platform-addr platform:9095",
		ValidArgs: app.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			hangup, endHangups := onHangup()
			defer endHangups()
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
			go hangup(func() {
				cfg, err := config.Load(cmd.Flags(), os.LookupEnv)
				a.Reload(cfg, err)
			})
			return a.Run(cmd.Context())
		},
	}
}

// logSettings logs the values in effect without secrets; on a terminal only those that were
// set.
func logSettings(log *slog.Logger, cfg *config.Config) {
	few := app.IsTextLog(os.Stderr, *cfg)
	var attrs []any
	for _, f := range config.Fields(cfg) {
		if !few || f.String() != f.Default && f.Default != "" || f.Default == "" && f.String() != "" && !strings.HasSuffix(f.Key, "_url") {
			attrs = append(attrs, f.Key, f.String())
		}
	}
	log.Info("Settings", attrs...)
}

func migrateCommand() *cobra.Command {
	var from string
	images := true
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Update the schema of database_url to this version",
		Long: `Update the schema of database_url to this version.

With --from, also copy everything from a slipwayd that ran as one process with
SQLite: users, tokens, credentials, workspaces, runs, names and builds. Stop it
first. The rows are compared before they are committed, and the source is not
changed. If build_repository is set, images of the embedded image store are copied
there, so that every name keeps working. The master key is copied to
master_key_file if there is none.`,
		Example: `  slipwayd migrate --database-url postgres://slipway@db/slipway
  slipwayd migrate --from sqlite:data/slipway.db --database-url postgres://slipway@db/slipway \
    --build-repository registry.example.org/slipway --registry-auth-file auth.json --master-key-file master-key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if from == "" {
				if err := app.Migrate(cmd.Context(), cfg); err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), "The tables are current.")
				return nil
			}
			path, ok := strings.CutPrefix(from, "sqlite:")
			if !ok {
				return fmt.Errorf("--from must be sqlite:PATH, not %q", from)
			}
			return transfer.Run(cmd.Context(), transfer.Options{Config: cfg, From: path, Images: images, Progress: cmd.OutOrStdout()})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "copy everything from this SQLite database (sqlite:PATH), in the data_dir of a slipwayd that is stopped")
	cmd.Flags().BoolVar(&images, "images", true, "with --from, also copy the images of the embedded image store to build_repository")
	return cmd
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
