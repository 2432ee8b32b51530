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

// withRebuilds opens the build service's tables for one command.
func withRebuilds(f func(*cobra.Command, *app.Rebuilds, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		cfg, err := load(cmd)
		if err != nil {
			return err
		}
		r, err := app.OpenRebuilds(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return f(cmd, r, args)
	}
}

func rebuildsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "rebuilds",
		Short: "Show the images that another worker built again (verify_rebuild), and differences",
	}
	all, limit := false, 0
	list := &cobra.Command{
		Use:   "list",
		Short: "List differences that are not acknowledged, and images that wait",
		Args:  cobra.NoArgs,
		RunE: withRebuilds(func(cmd *cobra.Command, r *app.Rebuilds, _ []string) error {
			list, err := r.List(cmd.Context(), all, max(1, min(limit, 10_000)))
			if err != nil {
				return err
			}
			if err := printRebuilds(cmd.OutOrStdout(), list); err != nil {
				return err
			}
			if len(list) >= limit {
				fmt.Fprintf(cmd.ErrOrStderr(), "There may be more than these %d; list more with --max\n", len(list))
			}
			return nil
		}),
	}
	list.Flags().BoolVar(&all, "all", false, "list all, also those with the same bytes")
	list.Flags().IntVar(&limit, "max", 100, "how many are listed, the newest first, at most 10000")
	show := &cobra.Command{
		Use:   "show BUILD",
		Short: "Show both records of an image: the workers, the digests, and the layers that differ",
		Long: `Show both records of an image: the workers, the digests, and the layers that differ.

If another worker made other bytes from the same inputs, one of the two workers has a
broken disk or memory or is compromised. Build the package of a layer that differs on
a third machine to see which. "slipwayd workers revoke" discards what the faulty
worker has built since it was started; revoke its earlier names too. Then acknowledge the difference, which ends the alert.`,
		Example: "  slipwayd rebuilds show a1b2c3d4e5f60718_1",
		Args:    cobra.ExactArgs(1),
		RunE: withRebuilds(func(cmd *cobra.Command, r *app.Rebuilds, args []string) error {
			one, err := r.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printRebuild(cmd.OutOrStdout(), one)
		}),
	}
	acknowledge := &cobra.Command{
		Use:     "acknowledge BUILD",
		Short:   "State that a difference was handled, which ends its alert",
		Example: "  slipwayd rebuilds acknowledge a1b2c3d4e5f60718_1",
		Args:    cobra.ExactArgs(1),
		RunE: withRebuilds(func(cmd *cobra.Command, r *app.Rebuilds, args []string) error {
			return r.Acknowledge(cmd.Context(), args[0])
		}),
	}
	group.AddCommand(list, show, acknowledge)
	return group
}

func printRebuilds(out io.Writer, list []app.Rebuild) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BUILD\tSTATE\tBUILT\tFIRST WORKER\tSECOND WORKER\tIMAGE")
	for _, r := range list {
		state := r.State
		if !r.Acknowledged.IsZero() {
			state += " (acknowledged)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.BuildID, state, r.Created.UTC().Format(time.RFC3339), r.FirstWorker, cmp.Or(r.SecondWorker, "-"), r.Image)
	}
	return table.Flush()
}

func printRebuild(out io.Writer, r app.Rebuild) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fact := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, value)
		}
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	worker := func(name, id string) string {
		if name == "" {
			return ""
		}
		return name + " (in signed statements: " + id + ")"
	}
	fact("Build", r.BuildID)
	fact("Image", r.Image)
	fact("State", r.State)
	fact("First worker", worker(r.FirstWorker, r.FirstWorkerID))
	fact("First digest", r.FirstDigest)
	fact("First build ended", at(r.Created))
	fact("Second worker", worker(r.SecondWorker, r.SecondWorkerID))
	fact("Second digest", r.SecondDigest)
	fact("Second build began", at(r.Taken))
	fact("Second build ended", at(r.Ended))
	fact("Attempts", fmt.Sprint(r.Attempts))
	fact("Acknowledged", at(r.Acknowledged))
	fact("Message", r.Message)
	for _, s := range r.Settings {
		fact("", "")
		fact("Setting", s.Name)
		fact("  first", cmp.Or(s.First, "none"))
		fact("  second", cmp.Or(s.Second, "none"))
	}
	for _, l := range r.Layers {
		fact("", "")
		fact("Layer", l.Name)
		fact("  package", l.Package)
		fact("  sha256", l.SHA256)
		fact("  first digest", cmp.Or(l.First.Digest, "no such layer"))
		fact("  first diff id", l.First.DiffID)
		fact("  second digest", cmp.Or(l.Second.Digest, "no such layer"))
		fact("  second diff id", l.Second.DiffID)
	}
	return table.Flush()
}
