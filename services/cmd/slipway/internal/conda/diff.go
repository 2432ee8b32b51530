package conda

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// lockDiff returns `slipway lock diff`.
func lockDiff(s *session.Settings) *cobra.Command {
	var environment string
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show the differences between two locks",
		Long: `Show the differences between two locks, for each platform that both locks have:
packages that were added or removed, or have another version, build or channel.

OLD and NEW are files, - for standard input, http(s) addresses, or ids of builds.
Their formats may differ: lists of addresses (@EXPLICIT), conda-lock.yml and
pixi.lock. The exit code is 0 whether or not they differ.`,
		Example: `  slipway lock diff pixi.lock.old pixi.lock
  slipway lock diff conda-linux-64.lock pixi.lock --environment test
  git show HEAD~1:conda-lock.yml | slipway lock diff - conda-lock.yml -o json`,
		Args: usage.Exactly(2),
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
	addEnvironment(cmd, &environment)
	format := output.Flag(cmd, &condav1.CompareLocksResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if args[0] == "-" && args[1] == "-" {
			return usage.Errorf("only one lock can be read from standard input")
		}
		from, err := lockFile(cmd, c, args[0], environment)
		if err != nil {
			return err
		}
		to, err := lockFile(cmd, c, args[1], environment)
		if err != nil {
			return err
		}
		raw, res, err := compare(cmd.Context(), c, from, to)
		if err != nil {
			return err
		}
		for _, note := range res.GetNotes() {
			cmd.PrintErrln("slipway:", output.Printable(note))
		}
		t := differenceTable(res)
		if len(t) == 0 && !format.IsDocument() {
			cmd.PrintErrln("slipway: the locks have the same packages")
		}
		return format.Print(cmd.OutOrStdout(), raw, t)
	})
	return cmd
}

// lockFile returns the lock for an argument: an address, a file, or the id of a build. Only
// pixi.lock and conda-lock.yml have environments.
func lockFile(cmd *cobra.Command, c *session.Client, arg, environment string) (*condav1.LockFile, error) {
	if strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, "http://") {
		return &condav1.LockFile{Url: arg, EnvironmentName: environment}, nil
	}
	if _, err := os.Stat(arg); err != nil && arg != "-" && image.IsSubject(arg) {
		text, err := lockOf(cmd.Context(), c, arg)
		if err != nil {
			return nil, err
		}
		return &condav1.LockFile{Lock: base64.StdEncoding.EncodeToString([]byte(text))}, nil
	}
	text, err := image.Encoded(cmd, arg)
	return &condav1.LockFile{Lock: text, EnvironmentName: environment}, err
}

// lockOf returns the lock of a build as a pixi.lock, the most detailed format.
func lockOf(ctx context.Context, c *session.Client, build string) (string, error) {
	raw, err := image.LockOf(ctx, c, build, "pixi")
	if err != nil {
		return "", fmt.Errorf("%s is no file, and the lock of its image cannot be read: %w", build, err)
	}
	return string(raw), nil
}

func compare(ctx context.Context, c *session.Client, from, to *condav1.LockFile) ([]byte, *condav1.CompareLocksResponse, error) {
	var res condav1.CompareLocksResponse
	body := &condav1.TwoLocks{From: from, To: to}
	raw, err := c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha1/conda/diff", Signed: true, Body: body}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("comparing the locks: %w", err)
	}
	return raw, &res, nil
}

// differenceTable lists the packages that differ, by platform. It returns nil if there are none.
func differenceTable(res *condav1.CompareLocksResponse) output.Table {
	var t output.Table
	for _, d := range res.GetDifferences() {
		if len(d.GetChanges()) == 0 {
			continue
		}
		if t != nil {
			t = append(t, nil)
		}
		t = append(t, []string{"", "PACKAGE", "OLD", "NEW", "CHANNEL"})
		for _, c := range d.GetChanges() {
			t = append(t, changeRow(c))
		}
		t = append(t, []string{"", d.GetPlatform(), fmt.Sprintf("%d added, %d removed, %d changed, %d the same", d.GetAdded(), d.GetRemoved(), d.GetChanged(), d.GetUnchanged())})
	}
	return t
}

func changeRow(c *condav1.PackageChange) []string {
	sign := map[string]string{"added": "+", "removed": "-"}[c.GetChange()]
	before, now := c.GetOld(), c.GetNew()
	channel := cmp.Or(now.GetChannel(), before.GetChannel())
	if before.GetChannel() != "" && now.GetChannel() != "" && before.GetChannel() != now.GetChannel() {
		channel = before.GetChannel() + " → " + now.GetChannel()
	}
	if c.GetKind() == "pypi" {
		channel = "PyPI"
	}
	return []string{cmp.Or(sign, "~"), c.GetName(), releaseOf(before), releaseOf(now), channel}
}

// releaseOf returns the version and build of a package.
func releaseOf(p *condav1.LockedPackage) string {
	return strings.TrimSpace(p.GetVersion() + " " + p.GetBuild())
}
