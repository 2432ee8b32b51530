package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
)

// buildkitdCommand returns the command that runs a daemon for buildkit_addr of other
// machines.
func buildkitdCommand() *cobra.Command {
	var b app.Buildkitd
	var cache string
	cmd := &cobra.Command{
		Use:   "buildkitd --root DIR --addr ADDRESS [-- flags of buildkitd]",
		Short: "Run a BuildKit daemon for remote builders, with an isolated network for each build step",
		Long: `Run a BuildKit daemon for remote builders, with an isolated network for each build step.

A step only reaches a proxy, which allows public addresses and those of
egress_allow. buildkitd fetches and pushes through a proxy with the same rules, so
egress_allow must contain registries in private networks. Registries in
insecure_registries use plain HTTP, and steps do not reach them by name. Images are
pulled from the mirrors in registry_mirrors. Of the other settings,
build_no_new_privileges, runc_path and log_level have an effect.

It must run as root, at least of a user namespace: start it with rootlesskit, or as
root. buildkitd, slipway-runc and runc must be next to it or on the PATH. After
SIGTERM, running builds are finished.`,
		Example: `  rootlesskit --net=host --copy-up=/etc --copy-up=/run slipwayd buildkitd --root /state --addr unix:///run/user/1000/buildkitd.sock
  slipwayd buildkitd --root /state --addr tcp://0.0.0.0:1234 -- --tlscacert=ca.crt --tlscert=tls.crt --tlskey=tls.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := b.Cache.UnmarshalText([]byte(cache)); err != nil {
				return err
			}
			b.Args, b.Run = args, cmp.Or(b.Run, filepath.Join(cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run"), "slipway-buildkitd"))
			return b.Serve(cmd.Context(), cfg, cmd.ErrOrStderr(), app.NewLogger(os.Stderr, cfg))
		},
	}
	cmd.Flags().StringVar(&b.Root, "root", "", "The folder of its caches. Required.")
	cmd.Flags().StringVar(&b.Run, "run", "", "The folder of its sockets and configuration, a short path. Empty: slipway-buildkitd in XDG_RUNTIME_DIR, or in /run.")
	cmd.Flags().StringArrayVar(&b.Addresses, "addr", nil, "The address to listen on, unix://… or tcp://…; may be repeated. Required.")
	cmd.Flags().StringVar(&cache, "cache", "14GiB", "The maximum size of its caches on disk.")
	cmd.Flags().StringVar(&b.More, "more", "", "A file that is added to buildkitd's configuration: [registry.…], [dns], [history], [system], [[worker.oci.gcpolicy]].")
	_ = cmd.MarkFlagRequired("root")
	_ = cmd.MarkFlagRequired("addr")
	return cmd
}
