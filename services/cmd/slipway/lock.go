package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func lockCommand(s *settings) *cobra.Command {
	var f packageFlags
	var as, build string
	cmd := &cobra.Command{
		Use:   "lock [PACKAGE...]",
		Short: "Say exactly which Conda packages a request stands for",
		Long: `Say exactly which Conda packages a request stands for.

The lock is printed, in one of the formats that conda, micromamba, conda-lock and
pixi install from, with the address and the digest of each package; nothing is
downloaded and nothing built. The same lock always gives the same packages.
Where there is no such environment, the reason is told, and what there would be.

--build prints what the request of a build stood for when it was made, if that was
known; the build itself has resolved it again.

--format explicit is for one platform; conda-lock and pixi are also for two.
--output json has sizes, licences and what the channels had.`,
		Example: `  slipway lock samtools=1.20 bwa >conda-linux-64.lock
  slipway lock --file environment.yml --platform linux/amd64,linux/arm64 --format pixi >pixi.lock
  slipway lock --build 3f2a00000000beef_1
  slipway lock pytorch --virtual-package __cuda=12.4 --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if build != "" {
				return ofBuild(cmd, args)
			}
			return f.check(args)
		},
		ValidArgsFunction: s.offersPackages(),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&as, "format", "explicit", "The lock's format: explicit, conda-lock or pixi.")
	cmd.Flags().StringVar(&build, "build", "", "The `id` of a build, or of a request, or its name, instead of packages: print the lock that the build was started with.")
	complete(cmd, "format", "explicit", "conda-lock", "pixi")
	complete(cmd, "build")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if output.isDocument() && cmd.Flags().Changed("format") {
			return usagef("--output json is a format of its own; leave out --format")
		}
		c, err := s.client()
		if err != nil {
			return err
		}
		if output.isDocument() {
			as = ""
		}
		if build != "" {
			id, err := c.buildOf(cmd.Context(), build)
			if err != nil {
				return err
			}
			raw, err := c.do(cmd.Context(), buildLockCall(id, as), nil)
			if err != nil {
				return fmt.Errorf("reading the lock of the build: %w", err)
			}
			return printLock(cmd, raw, output)
		}
		q, err := f.query(cmd, c, args)
		if err != nil {
			return err
		}
		q.Format = as
		raw, err := c.do(cmd.Context(), lockCall(q), nil)
		if err != nil {
			return fmt.Errorf("locking: %w", withSuggestions(err, q))
		}
		return printLock(cmd, raw, output)
	}
	return cmd
}

// ofBuild refuses what says which packages are meant, where a build says it.
func ofBuild(cmd *cobra.Command, args []string) error {
	for _, name := range []string{"file", "channel", "platform", "virtual-package", "exclude-newer", "flexible"} {
		if len(args) > 0 || cmd.Flags().Changed(name) {
			return usagef("--build is instead of packages, and of what is said about them")
		}
	}
	return nil
}

// printLock writes a lock as the server does: as JSON, or as the text of a file.
func printLock(cmd *cobra.Command, raw []byte, output *format) error {
	if output.isDocument() {
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
