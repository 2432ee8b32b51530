package conda

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Search returns `slipway search`.
func Search(s *session.Settings) *cobra.Command {
	var w packageSearch
	var most int
	cmd := &cobra.Command{
		Use:   "search [NAME]",
		Short: "Find Conda packages by name, command or file, and their versions",
		Long: `Find Conda packages by name, command or file, and their versions.

Results are ordered by match: the package NAME, packages whose names begin with it,
contain it, or differ from it by one letter. Within each group, packages with more
dependents come first. CHANNEL::NAME shows the versions and builds of one
package instead, newest first.

--command and --file find the packages that contain a command or a file. The server knows
this of packages that were used in an image before, of conda-forge, bioconda and the
channels that its operator configured.

--license leaves out packages whose newest version has another licence.`,
		Example:           "  slipway search samtools\n  slipway search bioconda::samtools\n  slipway search torch -c conda-forge --platform linux/arm64\n  slipway search --command bcftools\n  slipway search --file include/htslib/sam.h\n  slipway search json --license MIT",
		Args:              usage.AtMostOne,
		ValidArgsFunction: completePackages(s),
	}
	cmd.Flags().StringVarP(&w.channel, "channel", "c", "", "The `channel` to look in (default: conda-forge and bioconda).")
	cmd.Flags().StringVar(&w.platform, "platform", "", "Leave out packages that have nothing for this platform, e.g. linux/arm64.")
	cmd.Flags().StringVar(&w.command, "command", "", "Find the packages with this `command` instead, e.g. bcftools.")
	cmd.Flags().StringVar(&w.file, "file", "", "Find the packages with this `file` instead: its name, or its path in the environment.")
	cmd.Flags().StringVar(&w.license, "license", "", "Leave out packages without this `licence`, an SPDX identifier, e.g. MIT.")
	cmd.Flags().IntVar(&most, "max", 20, "How many to show at most.")
	usage.CompleteFlag(cmd, "channel", "conda-forge", "bioconda")
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64")
	usage.CompleteFlag(cmd, "license", "MIT", "Apache-2.0", "BSD-3-Clause", "GPL-3.0-or-later")
	usage.CompleteFlag(cmd, "max")
	format := output.Flag(cmd, &condav1.SearchPackagesResponse{}, &condav1.DescribePackageResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if err := w.read(args); err != nil {
			return err
		}
		if in, name, ok := strings.Cut(w.name, "::"); ok {
			raw, t, err := versions(cmd.Context(), c, in, name, most)
			if err != nil {
				return fmt.Errorf("describing %s: %w", w.name, err)
			}
			return format.Print(cmd.OutOrStdout(), raw, t)
		}
		raw, res, err := c.Search(cmd.Context(), w.parameters(most))
		if err != nil {
			return fmt.Errorf("searching %s: %w", cmp.Or(w.name, w.command, w.file), err)
		}
		if len(res.GetPackages()) == 0 {
			cmd.PrintErrln("slipway: " + w.notFoundMessage())
		}
		return format.Print(cmd.OutOrStdout(), raw, foundTable(res))
	})
	return cmd
}

// packageSearch is what to search for. One of name, command and file is set.
type packageSearch struct{ name, command, file, channel, platform, license string }

// read reads the arguments.
func (w *packageSearch) read(args []string) error {
	if len(args) > 0 {
		w.name = args[0]
	}
	set := 0
	for _, s := range []string{w.name, w.command, w.file} {
		if s != "" {
			set++
		}
	}
	if set != 1 {
		return usage.Errorf("give either the NAME of a package, --command or --file")
	}
	if w.license != "" && strings.Contains(w.name, "::") {
		return usage.Errorf("CHANNEL::NAME shows the licence of each version; use --channel with --license")
	}
	return nil
}

// notFoundMessage is the message if no package was found.
func (w *packageSearch) notFoundMessage() string {
	if w.license != "" {
		return fmt.Sprintf("no such package has the licence %s; search again without --license to see the licences", w.license)
	}
	if w.name != "" {
		return "no package has such a name; search another channel with --channel"
	}
	what := "the command " + w.command
	if w.file != "" {
		what = "the file " + w.file
	}
	return fmt.Sprintf("no package that this server has used in an image has %s; search by name with: slipway search NAME", what)
}

func (w *packageSearch) parameters(most int) url.Values {
	query := url.Values{"max": {strconv.Itoa(most)}}
	for key, value := range map[string]string{"q": w.name, "command": w.command, "file": w.file, "channel": w.channel, "platform": w.platform, "license": w.license} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return query
}

// foundTable has columns for the versions, paths and summaries only if there are any.
func foundTable(res *condav1.SearchPackagesResponse) output.Table {
	if len(res.GetPackages()) == 0 {
		return nil
	}
	columns := []struct {
		title string
		of    func(p *condav1.FoundPackage) string
	}{
		{"PACKAGE", (*condav1.FoundPackage).GetName},
		{"NEWEST", (*condav1.FoundPackage).GetVersion},
		{"IN", func(p *condav1.FoundPackage) string { return strings.Join(p.GetVersions(), ", ") }},
		{"CHANNEL", (*condav1.FoundPackage).GetChannel},
		{"FOR", func(p *condav1.FoundPackage) string { return strings.Join(p.GetPlatforms(), ", ") }},
		{"LICENCE", (*condav1.FoundPackage).GetLicense},
		{"PATH", func(p *condav1.FoundPackage) string { return strings.Join(p.GetPaths(), ", ") }},
		{"SUMMARY", (*condav1.FoundPackage).GetSummary},
	}
	optional := []string{"IN", "PATH", "SUMMARY"}
	t := make(output.Table, len(res.GetPackages())+1)
	for _, c := range columns {
		has := func(p *condav1.FoundPackage) bool { return c.of(p) != "" }
		if slices.Contains(optional, c.title) && !slices.ContainsFunc(res.GetPackages(), has) {
			continue
		}
		t[0] = append(t[0], c.title)
		for i, p := range res.GetPackages() {
			t[i+1] = append(t[i+1], c.of(p))
		}
	}
	if more := int(res.GetTotal()) - len(res.GetPackages()); more > 0 {
		t = append(t, nil, []string{fmt.Sprintf("and %d more", more)})
	}
	return t
}

// versions requests the versions of one package.
func versions(ctx context.Context, c *session.Client, channel, name string, most int) ([]byte, output.Table, error) {
	var res condav1.DescribePackageResponse
	path := "/v1alpha1/conda/packages/" + url.PathEscape(channel) + "/" + url.PathEscape(name)
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: path, Signed: true}, &res)
	if err != nil {
		return nil, nil, err
	}
	t := output.Table{{"VERSION", "BUILD", "FOR", "DOWNLOAD", "MADE", "LICENCE"}}
	for _, v := range res.GetVersions() {
		version, license := v.GetVersion(), v.GetLicense()
		for _, b := range v.GetBuilds() {
			if len(t) > most {
				return raw, append(t, []string{"…"}), nil
			}
			made, _, _ := strings.Cut(b.GetDate(), "T")
			t = append(t, []string{version, b.GetBuild(), b.GetSubdir(), fmt.Sprintf("%8s", output.BytesText(b.GetSize())), made, license})
			version, license = "", "" // shown once
		}
	}
	return raw, t, nil
}

// completePackages completes names of packages.
func completePackages(s *session.Settings) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		channel, name, ok := strings.Cut(word, "::")
		if !ok {
			channel, name = "", word
		}
		if name == "" || strings.ContainsAny(name, "=<>! [:") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
			_, res, err := c.Search(ctx, (&packageSearch{name: name, channel: channel}).parameters(50))
			var all []cobra.Completion
			for _, p := range res.GetPackages() {
				if strings.HasPrefix(p.GetName(), name) {
					all = append(all, session.CompleteFlag(strings.TrimSuffix(word, name)+p.GetName(), p.GetVersion()+" of "+p.GetChannel()))
				}
			}
			return all, err
		}
		return s.Completions(list)(cmd, args, word)
	}
}
