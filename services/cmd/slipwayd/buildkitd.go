package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
)

// buildkitdCommand serves the daemons that buildkit_addr of others names.
func buildkitdCommand() *cobra.Command {
	var b app.Buildkitd
	var cache string
	cmd := &cobra.Command{
		Use:   "buildkitd --root DIR --addr ADDRESS [-- flags of buildkitd]",
		Short: "Run a BuildKit daemon for builders elsewhere, each step of a build in a network of its own",
		Long: `Run a BuildKit daemon for builders elsewhere, each step of a build in a network of its own.

A step has nothing there but a proxy, which leads to public addresses and to
those of egress_allow. buildkitd fetches and pushes through a proxy with the same
rules, so egress_allow must name registries in private networks; those of
insecure_registries are spoken to in plain http, and steps do not reach them by
their names. Of the other settings build_no_new_privileges, runc_path and
log_level have an effect.

It must be root, of a user namespace at least: start it with rootlesskit, or as
root. buildkitd, slipway-runc and runc are beside it or on the PATH. SIGTERM
lets the builds that run finish.`,
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
	cmd.Flags().StringVar(&b.Root, "root", "", "Where it keeps its caches. Required.")
	cmd.Flags().StringVar(&b.Run, "run", "", "Where its sockets and its configuration are, a short path. Empty: slipway-buildkitd in XDG_RUNTIME_DIR, or in /run.")
	cmd.Flags().StringArrayVar(&b.Addresses, "addr", nil, "Where it listens, unix://… or tcp://…; may be given several times. Required.")
	cmd.Flags().StringVar(&cache, "cache", "14GiB", "What its caches may take of the disk.")
	cmd.Flags().StringVar(&b.More, "more", "", "A file that is added to buildkitd's configuration: [registry.…], [dns], [history], [system], [[worker.oci.gcpolicy]].")
	_ = cmd.MarkFlagRequired("root")
	_ = cmd.MarkFlagRequired("addr")
	return cmd
}
