package conda

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Lock returns `slipway lock`.
func Lock(s *session.Settings) *cobra.Command {
	var f packageFlags
	var as, build string
	var sha256 bool
	cmd := &cobra.Command{
		Use:   "lock [PACKAGE...]",
		Short: "Print the exact Conda packages that a request resolves to",
		Long: `Print the exact Conda packages that a request resolves to.

The lock is printed, in one of the formats that conda, micromamba, conda-lock and
pixi install from, with the address and the digest of each package; nothing is
downloaded and nothing built. The same lock always gives the same packages.
If the packages conflict, the reason and suggestions are shown.

A lock given with --file is converted to another format without solving.

--build prints the lock that a build was started with, if there is one; a build from
a Dockerfile has resolved the packages again.

--format explicit is for one platform, with the MD5 of each package, which every
conda reads; with --sha256 it has SHA-256, which conda reads since 23.11.
conda-lock and pixi are also for two platforms, and have both.
--output json has sizes, licences and the state of the channels.

--as-of solves with the packages that were available at a time. Records that a
channel has corrected since are used in their current form. --min-age excludes recent
packages, which few users have tried.`,
		Example: `  slipway lock samtools=1.20 bwa >conda-linux-64.lock
  slipway lock --file environment.yml --platform linux/amd64,linux/arm64 --format pixi >pixi.lock
  slipway lock --build 3f2a00000000beef_1
  slipway lock samtools=1.20 --min-age 7d --min-age-except openssl
  slipway lock pytorch --virtual-package __cuda=12.4 --output json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if build != "" {
				return ofBuild(cmd, args)
			}
			return f.check(args)
		},
		ValidArgsFunction: completePackages(s),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&as, "format", "explicit", "The lock's format: explicit, conda-lock or pixi.")
	cmd.Flags().BoolVar(&sha256, "sha256", false, "With --format explicit: write SHA-256 instead of MD5.")
	cmd.Flags().StringVar(&build, "build", "", "The `id` of a build, of a request or of a kept image, or an image's name, instead of packages: print the lock that the image was built from.")
	usage.CompleteFlag(cmd, "format", "explicit", "conda-lock", "pixi")
	usage.CompleteFlag(cmd, "build")
	format := output.Flag(cmd, &condav1.LockPackagesResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format.IsDocument() && cmd.Flags().Changed("format") {
			return usage.Errorf("--output json is a format of its own; leave out --format")
		}
		if sha256 && (as != "explicit" || format.IsDocument()) {
			return usage.Errorf("--sha256 is for --format explicit; other formats have both hashes")
		}
		if sha256 {
			as = "explicit-sha256"
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
		raw, err := c.LockFile(cmd.Context(), q)
		if err != nil {
			return fmt.Errorf("locking: %w", withSuggestions(err, q))
		}
		return printLock(cmd, raw, format)
	}
	cmd.AddCommand(s.Paged(lockDiff(s)), lockUpdate(s))
	return cmd
}

// ofBuild rejects flags and arguments that describe packages together with --build.
func ofBuild(cmd *cobra.Command, args []string) error {
	for _, name := range []string{"file", "environment", "channel", "platform", "virtual-package", "exclude-newer", "as-of", "min-age", "min-age-except", "refresh", "flexible"} {
		if len(args) > 0 || cmd.Flags().Changed(name) {
			return usage.Errorf("--build replaces packages and the flags for them; give one or the other")
		}
	}
	return nil
}

// lockOfBuild prints the lock that a build was started with.
func lockOfBuild(cmd *cobra.Command, c *session.Client, build, as string, format *output.Format) error {
	raw, err := image.LockOf(cmd.Context(), c, build, as)
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
