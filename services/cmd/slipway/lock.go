package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
)

func lockCommand(s *settings) *cobra.Command {
	var f packageFlags
	var as string
	cmd := &cobra.Command{
		Use:   "lock [PACKAGE...]",
		Short: "Say exactly which Conda packages a request stands for",
		Long: `Say exactly which Conda packages a request stands for.

The lock is printed, in one of the formats that conda, micromamba, conda-lock and
pixi install from, with the address and the digest of each package; nothing is
downloaded and nothing built. The same lock always gives the same packages.
Where there is no such environment, the reason is told, and what there would be.

--format explicit is for one platform; conda-lock and pixi are also for two.
--output json has sizes, licences and what the channels had.`,
		Example: `  slipway lock samtools=1.20 bwa >conda-linux-64.lock
  slipway lock --file environment.yml --platform linux/amd64,linux/arm64 --format pixi >pixi.lock
  slipway lock pytorch --virtual-package __cuda=12.4 --output json`,
		Args:              func(_ *cobra.Command, args []string) error { return f.check(args) },
		ValidArgsFunction: s.offersPackages(),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&as, "format", "explicit", "The lock's format: explicit, conda-lock or pixi.")
	complete(cmd, "format", "explicit", "conda-lock", "pixi")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *output == "json" && cmd.Flags().Changed("format") {
			return usagef("--output json is a format of its own; leave out --format")
		}
		c, err := s.client()
		if err != nil {
			return err
		}
		q, err := f.query(cmd, c, args)
		if err != nil {
			return err
		}
		if *output != "json" {
			q.Format = as
		}
		return printLock(cmd, c, q, output)
	}
	return cmd
}

// printLock writes a lock as the server does: as JSON, or as the text of a file.
func printLock(cmd *cobra.Command, c *client, q *condav1.LockQuery, output *format) error {
	raw, err := c.do(cmd.Context(), lockCall(q), nil)
	if err != nil {
		return fmt.Errorf("locking: %w", withSuggestions(err, q))
	}
	if *output == "json" {
		return output.print(cmd.OutOrStdout(), raw, nil)
	}
	if len(raw) == 0 {
		return errors.New("the answer holds no lock; check --server")
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), plainText(string(raw))); err != nil {
		return fmt.Errorf("printing the lock: %w", err)
	}
	return nil
}
