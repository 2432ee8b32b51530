package image

import (
	"cmp"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Open returns `slipway open`.
func Open(s *session.Settings, env func(string) string) *cobra.Command {
	var here bool
	cmd := &cobra.Command{
		Use:   "open [ID]",
		Short: "Show a build or a kept image in the browser",
		Long: `Show a build in the browser: its progress, its log while it is written, and its
recipe; or the page of a kept image. Without ID, the page for finding packages is
opened.

` + idForms + `
BROWSER names the program that shows pages; the default is the desktop's. If there is
none, as on a cluster's login node, --no-browser prints the address.`,
		Example: "  slipway open 3f2a5b6c7d8e9f01_1\n  slipway open --no-browser",
		Args:    usage.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			page, err := page(cmd, s, args)
			if err != nil {
				return err
			}
			if here {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), page)
				return err
			}
			return browse(cmd, cmp.Or(env("BROWSER"), desktopBrowser()), page)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVarP(&here, "no-browser", "n", false, "Print the address.")
	return cmd
}

// page returns the address of an ID's page. It contains no token of a request.
func page(cmd *cobra.Command, s *session.Settings, args []string) (string, error) {
	c, err := s.Client()
	if err != nil {
		return "", err
	}
	at := *c.Base
	at.User = nil
	if len(args) == 0 {
		return at.JoinPath("/").String(), nil
	}
	if what, err := readSubject(args[0]); err == nil && what.isKept() {
		return at.JoinPath("c", what.request).String(), nil
	}
	id, err := BuildOf(cmd.Context(), c, args[0])
	if err != nil {
		return "", err
	}
	return at.JoinPath("view", "builds", id).String(), nil
}

// desktopBrowser returns the program that opens an address on the desktop.
func desktopBrowser() string {
	if runtime.GOOS == "darwin" {
		return "open"
	}
	return "xdg-open"
}

// browse opens an address with a program.
func browse(cmd *cobra.Command, program, address string) error {
	cmd.PrintErrln("Opening", address)
	shows := exec.CommandContext(cmd.Context(), "sh", "-c", program+` "$1"`, "sh", address)
	shows.Stdout, shows.Stderr = cmd.ErrOrStderr(), cmd.ErrOrStderr()
	if err := shows.Run(); err != nil {
		return fmt.Errorf("%s did not open it; set BROWSER, or print the address with --no-browser: %w", program, err)
	}
	return nil
}
