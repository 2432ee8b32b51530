package conda

import (
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

// Licenses returns `slipway licenses`.
func Licenses(s *session.Settings) *cobra.Command {
	var environment string
	var platforms []string
	cmd := &cobra.Command{
		Use:   "licenses LOCK|IMAGE",
		Short: "List the licences of the Conda packages of a lock or an image",
		Long: `List the licences of the Conda packages of a lock or an image.

The licences are shown as the channels write them; invalid SPDX
expressions are marked, and packages without a licence are listed last.

LOCK is a file, - for standard input, or an http(s) address; a list of addresses
(@EXPLICIT) has no licences, so they are read from the channels. IMAGE is the name that
the server returned for an image, or the id of its request or build.`,
		Example: "  slipway licenses pixi.lock\n  slipway licenses 3f2a00000000beef_1\n  slipway licenses conda-lock.yml --platform linux/amd64,linux/arm64 -o json",
		Args:    usage.Exactly(1),
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveDefault // files
	}
	addEnvironment(cmd, &environment)
	cmd.Flags().StringSliceVar(&platforms, "platform", nil, "The platforms, linux/amd64, linux/arm64 or both with a comma between (default: linux/amd64).")
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64", "linux/amd64,linux/arm64")
	name := session.WorkspaceFlag(cmd, s, "whose logins for private channels are used")
	format := output.Flag(cmd, &condav1.ListLicensesResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		packages, err := lockedPackages(cmd, c, args[0], environment)
		if err != nil {
			return err
		}
		q := &condav1.LockQuery{Packages: packages, Platforms: platforms}
		workspace, err := c.Workspace(cmd.Context(), *name)
		if err != nil {
			return err
		}
		if workspace != 0 {
			q.PlatformWorkspaceId = &workspace
		}
		var res condav1.ListLicensesResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/v1alpha1/conda/licenses", Signed: true, Body: q}, &res)
		if err != nil {
			return fmt.Errorf("listing the licences: %w", err)
		}
		return format.Print(cmd.OutOrStdout(), raw, licenseTable(&res))
	})
	return cmd
}

// lockedPackages returns the packages of a lock, in a file or at an address, or of an image
// that the server built.
func lockedPackages(cmd *cobra.Command, c *session.Client, arg, environment string) (*condav1.CondaPackages, error) {
	out := &condav1.CondaPackages{Type: "CONDA", EnvironmentName: environment}
	if strings.HasPrefix(arg, "https://") || strings.HasPrefix(arg, "http://") {
		out.Entries = []string{arg}
		return out, nil
	}
	if _, err := os.Stat(arg); err == nil || arg == "-" {
		out.Environment, err = image.Encoded(cmd, arg)
		return out, err
	}
	text, err := lockOf(cmd.Context(), c, arg)
	out.Environment, out.EnvironmentName = base64.StdEncoding.EncodeToString([]byte(text)), ""
	return out, err
}

// licenseTable lists licences with their packages, by platform.
func licenseTable(res *condav1.ListLicensesResponse) output.Table {
	var t output.Table
	for i, p := range res.GetPlatforms() {
		if i > 0 {
			t = append(t, nil)
		}
		t = append(t, []string{"LICENCE", "SPDX", p.GetPlatform()})
		for _, l := range p.GetLicenses() {
			is := "no"
			if l.GetSpdx() {
				is = "yes"
			}
			var names []string
			for _, of := range l.GetPackages() {
				names = append(names, of.GetName())
			}
			t = append(t, []string{l.GetLicense(), is, strings.Join(names, ", ")})
		}
		if len(p.GetUnknown()) > 0 {
			t = append(t, []string{"unknown", "", strings.Join(p.GetUnknown(), ", ")})
		}
	}
	return t
}
