package conda

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
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
	var channel, platform string
	var most int
	cmd := &cobra.Command{
		Use:   "search NAME",
		Short: "Find Conda packages by name, and their versions",
		Long: `Find Conda packages by name, and their versions.

Results are ordered by match: the package NAME, packages whose names begin with it,
contain it, or differ from it by one letter. Within each group, packages with more
dependents come first. CHANNEL::NAME shows the versions and builds of one
package instead, newest first.`,
		Example:           "  slipway search samtools\n  slipway search bioconda::samtools\n  slipway search torch -c conda-forge --platform linux/arm64",
		Args:              usage.Exactly(1),
		ValidArgsFunction: offersPackages(s),
	}
	cmd.Flags().StringVarP(&channel, "channel", "c", "", "The `channel` to look in (default: conda-forge and bioconda).")
	cmd.Flags().StringVar(&platform, "platform", "", "Leave out packages that have nothing for this platform, e.g. linux/arm64.")
	cmd.Flags().IntVar(&most, "max", 20, "How many to show at most.")
	usage.Offer(cmd, "channel", "conda-forge", "bioconda")
	usage.Offer(cmd, "platform", "linux/amd64", "linux/arm64")
	usage.Offer(cmd, "max")
	format := output.Flag(cmd)
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if in, name, ok := strings.Cut(args[0], "::"); ok {
			raw, t, err := versions(cmd.Context(), c, in, name, most)
			if err != nil {
				return fmt.Errorf("describing %s: %w", args[0], err)
			}
			return format.Print(cmd.OutOrStdout(), raw, t)
		}
		var res condav1.SearchPackagesResponse
		raw, err := c.Do(cmd.Context(), searchCall(args[0], channel, platform, most), &res)
		if err != nil {
			return fmt.Errorf("searching %s: %w", args[0], err)
		}
		if len(res.GetPackages()) == 0 {
			cmd.PrintErrln("slipway: no package has such a name; search another channel with --channel")
		}
		return format.Print(cmd.OutOrStdout(), raw, foundTable(&res))
	})
	return cmd
}

func searchCall(name, channel, platform string, most int) session.Call {
	query := url.Values{"q": {name}, "max": {strconv.Itoa(most)}}
	for key, value := range map[string]string{"channel": channel, "platform": platform} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return session.Call{Method: http.MethodGet, Path: "/v1alpha1/conda/packages", Query: query, Signed: true}
}

func foundTable(res *condav1.SearchPackagesResponse) output.Table {
	if len(res.GetPackages()) == 0 {
		return nil
	}
	t := output.Table{{"PACKAGE", "NEWEST", "CHANNEL", "FOR", "LICENCE"}}
	for _, p := range res.GetPackages() {
		t = append(t, []string{p.GetName(), p.GetVersion(), p.GetChannel(), strings.Join(p.GetPlatforms(), ", "), p.GetLicense()})
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

// offersPackages completes names of packages.
func offersPackages(s *session.Settings) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		channel, name, ok := strings.Cut(word, "::")
		if !ok {
			channel, name = "", word
		}
		if name == "" || strings.ContainsAny(name, "=<>! [:") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
			var res condav1.SearchPackagesResponse
			_, err := c.Do(ctx, searchCall(name, channel, "", 50), &res)
			var all []cobra.Completion
			for _, p := range res.GetPackages() {
				if strings.HasPrefix(p.GetName(), name) {
					all = append(all, session.Offer(strings.TrimSuffix(word, name)+p.GetName(), p.GetVersion()+" of "+p.GetChannel()))
				}
			}
			return all, err
		}
		return s.Offers(list)(cmd, args, word)
	}
}
