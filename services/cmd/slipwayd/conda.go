package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/app/compare"
)

func condaCommand() *cobra.Command {
	group := &cobra.Command{Use: "conda", Short: "Check images of Conda packages"}
	group.AddCommand(condaCompareCommand())
	return group
}

// condaCompareCommand returns the command that compares an image assembled from packages with
// one in which the packages are installed.
func condaCompareCommand() *cobra.Command {
	var server, tokenFile, output string
	cmd := &cobra.Command{
		Use:   "compare REQUEST | SPEC...",
		Short: "Build Conda packages both ways, and print how the images differ",
		Long: `Build Conda packages both ways, and print how the images differ.

REQUEST is a JSON file, or - for standard input, with the body of POST
/v1alpha2/container: packages, or condaFile alone, for one platform. Or give
specifications, e.g. samtools=1.20.

The running slipwayd, at public_url or --server, builds two images: one assembled from
the packages, and one in which micromamba installs the same lock in a container, which
requires BuildKit. Then every name in both is compared: its kind, mode, link target and
bytes; and the records of conda-meta, field by field. Differences that any two
installers have (compiled Python, times, fields with paths) are counted separately.
Commands of the request are ignored, and so are containerConfig, freeze and format.

It fails if the images have other differences.`,
		Example: "  slipwayd conda compare samtools=1.20\n  slipwayd conda compare request.json --output json",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output must be text or json, not %q", output)
			}
			o, err := comparison(cmd, server, tokenFile, args)
			if err != nil {
				return err
			}
			report, err := compare.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			err = printReport(cmd.OutOrStdout(), report, output)
			if err == nil && !report.Equal() {
				err = fmt.Errorf("the images differ in %d ways", len(report.Differences))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&server, "server", "", "The service's address (default: public_url).")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "A file with an access token (default: SLIPWAY_TOKEN, or none).")
	cmd.Flags().StringVarP(&output, "output", "o", "text", "The output format: text, or json with direct, classic, lock, names, records, differences and known.")
	return cmd
}

// comparison returns the options for the flags and arguments.
func comparison(cmd *cobra.Command, server, tokenFile string, args []string) (compare.Options, error) {
	o := compare.Options{Server: server, Progress: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }}
	var err error
	if o.Config, err = load(cmd); err != nil {
		return o, err
	}
	if o.Token, err = tokenOf(tokenFile); err != nil {
		return o, err
	}
	return o, readRequest(cmd, args, &o)
}

func tokenOf(file string) (string, error) {
	if file == "" {
		return os.Getenv("SLIPWAY_TOKEN"), nil
	}
	raw, err := os.ReadFile(file)
	return strings.TrimSpace(string(raw)), err
}

// readRequest reads a request or specifications. A single argument that is - or ends in .json
// is a request.
func readRequest(cmd *cobra.Command, args []string, o *compare.Options) error {
	if len(args) > 1 || args[0] != "-" && !strings.HasSuffix(args[0], ".json") {
		o.Request = compare.Of(args)
		return nil
	}
	var raw []byte
	var err error
	if args[0] == "-" {
		raw, err = io.ReadAll(cmd.InOrStdin())
	} else {
		raw, err = os.ReadFile(args[0])
	}
	if err != nil {
		return errors.Join(errors.New("reading the request"), err)
	}
	o.Request, err = compare.Read(raw)
	return err
}

// printReport prints JSON or text. Text quotes names from images, so that they cannot
// control the terminal.
func printReport(out io.Writer, r compare.Report, format string) error {
	if format == "json" {
		encode := json.NewEncoder(out)
		encode.SetIndent("", "  ")
		return encode.Encode(r)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(out, "%q: %q: %q, installed %q\n", d.Path, d.What, d.Direct, d.Classic)
	}
	for _, k := range r.Known {
		fmt.Fprintf(out, "known: %d: %s, e.g. %q\n", k.Count, k.Why, k.Example)
	}
	fmt.Fprintf(out, "%d names and %d records of %s and %s: %d differences\n", r.Names, r.Records, r.Direct, r.Classic, len(r.Differences))
	return nil
}
