package conda

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// lockUpdate returns `slipway lock update`.
func lockUpdate(s *session.Settings) *cobra.Command {
	var f packageFlags
	var from, as string
	cmd := &cobra.Command{
		Use:   "update [PACKAGE...] --from LOCK",
		Short: "Update packages of a lock, and keep all others",
		Long: `Update packages of a lock, and keep all others.

Each PACKAGE is updated to the newest possible version, or the newest version within
its bounds, e.g. 'openssl=3.*'. A PACKAGE that the lock does not have is added. Other
packages only change if necessary. With an environment file (--file) instead of
packages, packages only change if the file requires it.

The new lock is printed in the format of the old lock, and the differences are shown
on standard error. Platforms and channels are those of the lock, unless set by flags. LOCK is a file, - for standard input, an http(s) address, or the id of a build.`,
		Example: `  slipway lock update openssl --from pixi.lock >pixi.lock.new
  slipway lock update 'numpy<3' scipy --from conda-linux-64.lock >new.lock
  slipway lock update --file environment.yml --from conda-lock.yml --format conda-lock >new.yml`,
		Args: func(_ *cobra.Command, args []string) error {
			if from == "" {
				return usage.Errorf("--from is missing; set it to the lock to update")
			}
			return f.check(args)
		},
		ValidArgsFunction: completePackages(s),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&from, "from", "", "The `lock` to update.")
	cmd.Flags().StringVar(&as, "format", "", "The new lock's format: explicit, explicit-sha256, conda-lock or pixi (default: that of the old lock).")
	usage.CompleteFlag(cmd, "format", "explicit", "explicit-sha256", "conda-lock", "pixi")
	format := output.Flag(cmd, &condav1.LockPackagesResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if format.IsDocument() && as != "" {
			return usage.Errorf("--output json excludes --format; leave out --format")
		}
		old, err := lockFile(cmd, c, from, f.environment)
		if err != nil {
			return err
		}
		q, err := f.query(cmd, c, args)
		if err != nil {
			return err
		}
		q.From = old
		if f.file == "" {
			q.Packages.EnvironmentName = ""
		}
		if as == "" && !format.IsDocument() {
			if as = formatOf(old); as == "" {
				return usage.Errorf("name the format of the new lock with --format")
			}
		}
		q.Format = as
		raw, err := c.LockFile(cmd.Context(), q)
		if err != nil {
			return fmt.Errorf("updating the lock: %w", withSuggestions(err, q))
		}
		if format.IsDocument() {
			return printLock(cmd, raw, format)
		}
		return printUpdate(cmd, c, old, raw, format)
	})
	return cmd
}

// formatOf returns the format of a lock, or "" if only its address is known.
func formatOf(l *condav1.LockFile) string {
	raw, err := base64.StdEncoding.DecodeString(l.GetLock())
	if err != nil || len(raw) == 0 {
		return ""
	}
	as := "explicit"
	for line := range strings.SplitSeq(string(raw), "\n") {
		switch {
		case strings.HasPrefix(line, "package:"):
			return "conda-lock"
		case strings.HasPrefix(line, "environments:"):
			return "pixi"
		case strings.Contains(line, "#sha256:"):
			as = "explicit-sha256"
		}
	}
	return as
}

// printUpdate prints the new lock, and its differences to the old lock on standard error.
func printUpdate(cmd *cobra.Command, c *session.Client, old *condav1.LockFile, raw []byte, format *output.Format) error {
	if err := printLock(cmd, raw, format); err != nil {
		return err
	}
	_, res, err := compare(cmd.Context(), c, old, &condav1.LockFile{Lock: base64.StdEncoding.EncodeToString(raw)})
	if err != nil {
		return err
	}
	t := differenceTable(res)
	if len(t) == 0 {
		cmd.PrintErrln("slipway: nothing changed")
		return nil
	}
	var out bytes.Buffer
	t.Write(&out)
	cmd.PrintErr(out.String())
	return nil
}
