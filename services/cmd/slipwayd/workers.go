package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/app"
)

// withWorkers opens the build service's tables for one command.
func withWorkers(f func(*cobra.Command, *app.Workers, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		w, err := app.OpenWorkers(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Close()) }()
		return f(cmd, w, args)
	}
}

func workersCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "workers",
		Short: "List the workers whose layers others use, and revoke compromised ones",
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the keys with which workers sign the layers that they build",
		Args:  cobra.NoArgs,
		RunE: withWorkers(func(cmd *cobra.Command, w *app.Workers, _ []string) error {
			keys, err := w.List(cmd.Context())
			if err != nil {
				return err
			}
			return printWorkerKeys(cmd.OutOrStdout(), keys)
		}),
	}
	revoke := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a worker, and discard the images that it built or signed layers of",
		Long: `Revoke a worker, and discard the images that it built or signed layers of.

NAME is the name of a worker, or the certificate of its keys (sha256:…), which can
then register no other key and gets no jobs. The other workers stop using its layers
within 30 seconds and build them again. Images that are listed were built by the
worker, contain a layer that it signed, or were built from such an image. Their names
are answered with 404 within 30 seconds, and the next container request builds them
again. Images in users' own repositories are listed too: delete them there. A worker
that is started again makes a new key, so stop one that was compromised, and remove
the folder packages from its data_dir.`,
		Example: "  slipwayd workers revoke builder-7-A2CD3F-Q7XK2M",
		Args:    cobra.ExactArgs(1),
		RunE: withWorkers(func(cmd *cobra.Command, w *app.Workers, args []string) error {
			images, err := w.Revoke(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "BUILD\tIMAGE\tDIGEST")
			for _, i := range images {
				fmt.Fprintf(table, "%s\t%s\t%s\n", i.BuildID, i.Image, i.Digest)
			}
			return table.Flush()
		}),
	}
	group.AddCommand(list, revoke)
	return group
}

func printWorkerKeys(out io.Writer, keys []app.WorkerKey) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tKEY\tREGISTERED\tLAST SEEN\tSTATE\tCERTIFICATE")
	for _, k := range keys {
		state := "valid"
		if !k.Revoked.IsZero() {
			state = "revoked " + k.Revoked.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%.16s\t%s\t%s\t%s\t%s\n", k.Worker, k.ID, k.Registered.Format(time.RFC3339), k.Seen.Format(time.RFC3339), state, cmp.Or(k.Certificate, "-"))
	}
	return table.Flush()
}
