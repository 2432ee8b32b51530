package conda

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Lock is `slipway lock`.
func Lock(s *session.Settings) *cobra.Command {
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
		ValidArgsFunction: offersPackages(s),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&as, "format", "explicit", "The lock's format: explicit, conda-lock or pixi.")
	cmd.Flags().StringVar(&build, "build", "", "The `id` of a build, or of a request, or its name, instead of packages: print the lock that the build was started with.")
	usage.Offer(cmd, "format", "explicit", "conda-lock", "pixi")
	usage.Offer(cmd, "build")
	format := output.Flag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format.IsDocument() && cmd.Flags().Changed("format") {
			return usage.Errorf("--output json is a format of its own; leave out --format")
		}
		c, err := s.Client()
		if err != nil {
			return err
		}
		if format.IsDocument() {
			as = ""
		}
		if build != "" {
			return lockOfBuild(cmd, c, build, as, format)
		}
		q, err := f.query(cmd, c, args)
		if err != nil {
			return err
		}
		q.Format = as
		raw, err := c.Do(cmd.Context(), lockCall(q), nil)
		if err != nil {
			return fmt.Errorf("locking: %w", withSuggestions(err, q))
		}
		return printLock(cmd, raw, format)
	}
	return cmd
}

// ofBuild refuses what says which packages are meant, where a build says it.
func ofBuild(cmd *cobra.Command, args []string) error {
	for _, name := range []string{"file", "channel", "platform", "virtual-package", "exclude-newer", "flexible"} {
		if len(args) > 0 || cmd.Flags().Changed(name) {
			return usage.Errorf("--build is instead of packages, and of what is said about them")
		}
	}
	return nil
}

// lockOfBuild prints the lock that a build was started with.
func lockOfBuild(cmd *cobra.Command, c *session.Client, build, as string, format *output.Format) error {
	id, err := image.BuildOf(cmd.Context(), c, build)
	if err != nil {
		return err
	}
	raw, err := c.Do(cmd.Context(), image.BuildLockCall(id, as), nil)
	if err != nil {
		return fmt.Errorf("reading the lock of the build: %w", err)
	}
	return printLock(cmd, raw, format)
}

// printLock writes a lock as the server does: as JSON, or as the text of a file.
func printLock(cmd *cobra.Command, raw []byte, format *output.Format) error {
	if format.IsDocument() {
		return format.Print(cmd.OutOrStdout(), raw, nil)
	}
	if len(raw) == 0 {
		return errors.New("the answer holds no lock; check --server")
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), output.PlainText(string(raw))); err != nil {
		return fmt.Errorf("printing the lock: %w", err)
	}
	return nil
}
