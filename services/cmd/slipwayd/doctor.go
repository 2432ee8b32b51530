package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"slipway.dev/services/app/doctor"
)

// doctorCommand returns `slipwayd doctor`.
func doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation and suggest fixes",
		Long: `Check the installation and suggest fixes.

It checks the settings, data_dir and its disk, the files that settings name, ports,
certificates, public_url, runc (by running an empty container), control groups, the
database, Redis and NATS, DNS, registries, the sign-in provider, Conda channels and
the clock. It changes nothing. Run it as the user that runs slipwayd, with the same
settings. If root runs it, files are checked for the owner of data_dir.

It fails if a check fails; warnings do not count.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			findings := doctor.Examine(cmd.Context(), doctor.Options{Config: cfg})
			if asJSON {
				encode := json.NewEncoder(cmd.OutOrStdout())
				encode.SetIndent("", "  ")
				err = encode.Encode(findings)
			} else {
				printFindings(cmd.OutOrStdout(), findings)
			}
			return errors.Join(err, verdict(findings))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Print JSON: a list of check, state (ok, warn, fail), text, do.")
	return cmd
}

func printFindings(out io.Writer, findings []doctor.Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%-4s  %-14s  %s\n", f.State, f.Check, f.Text)
		if f.State != doctor.OK && f.Do != "" {
			fmt.Fprintf(out, "%22s  -> %s\n", "", f.Do)
		}
	}
}

// verdict returns an error if a check failed.
func verdict(findings []doctor.Finding) error {
	failed := 0
	for _, f := range findings {
		if f.State == doctor.Fail {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed; the fix is shown below each", failed, len(findings))
}
