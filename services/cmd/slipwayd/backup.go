package main

import (
	"github.com/spf13/cobra"

	"slipway.dev/services/app/backup"
)

func backupCommand() *cobra.Command {
	var withoutKey bool
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the data of a server that runs as one process to a folder",
		Long: `Copy the data of a server that runs as one process to a folder.

The server may be running. The backup has the database, the embedded image store, the
master key and the first user's access token: protect it like data_dir. Another backup
to the same folder replaces the first and copies only new images. Until it has finished,
the folder has no complete backup, so alternate between two folders.

With a PostgreSQL database, use pg_dump instead.`,
		Example: "  slipwayd backup /backup/slipway --data-dir /var/lib/slipway",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			return backup.Create(cmd.Context(), backup.Options{
				Config: cfg, Dir: args[0], WithoutMasterKey: withoutKey, Version: version, Progress: cmd.OutOrStdout(),
			})
		},
	}
	cmd.Flags().BoolVar(&withoutKey, "without-master-key", false, "Leave out the master key, if you store it elsewhere.")
	return cmd
}

func restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore DIR",
		Short: "Copy a backup to an empty data_dir",
		Long: `Copy a backup to an empty data_dir.

The digest of every file is verified. If the command is interrupted, run it again. Then
start slipwayd with the settings of the original server. Image names remain valid as
long as public_url does not change.`,
		Example: "  slipwayd restore /backup/slipway --data-dir /var/lib/slipway",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			return backup.Restore(cmd.Context(), backup.Options{Config: cfg, Dir: args[0], Version: version, Progress: cmd.OutOrStdout()})
		},
	}
}
