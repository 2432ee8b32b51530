package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
)

func searchCommand(s *settings) *cobra.Command {
	var channel, platform string
	var most int
	cmd := &cobra.Command{
		Use:   "search NAME",
		Short: "Find Conda packages by name, and their versions",
		Long: `Find Conda packages by name, and their versions.

First come packages whose names begin with NAME, then those that contain it, then
those whose names are one letter away from it. CHANNEL::NAME shows the versions
and builds of one package instead, newest first.`,
		Example:           "  slipway search samtools\n  slipway search bioconda::samtools\n  slipway search torch -c conda-forge --platform linux/arm64",
		Args:              exactly(1),
		ValidArgsFunction: s.offersPackages(),
	}
	cmd.Flags().StringVarP(&channel, "channel", "c", "", "The `channel` to look in (default: conda-forge and bioconda).")
	cmd.Flags().StringVar(&platform, "platform", "", "Leave out packages that have nothing for this platform, e.g. linux/arm64.")
	cmd.Flags().IntVar(&most, "max", 20, "How many to show at most.")
	complete(cmd, "channel", "conda-forge", "bioconda")
	complete(cmd, "platform", "linux/amd64", "linux/arm64")
	complete(cmd, "max")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		if in, name, ok := strings.Cut(args[0], "::"); ok {
			raw, t, err := c.versions(cmd.Context(), in, name, most)
			if err != nil {
				return fmt.Errorf("describing %s: %w", args[0], err)
			}
			return output.print(cmd.OutOrStdout(), raw, t)
		}
		var res condav1.SearchPackagesResponse
		raw, err := c.do(cmd.Context(), searchCall(args[0], channel, platform, most), &res)
		if err != nil {
			return fmt.Errorf("searching %s: %w", args[0], err)
		}
		if len(res.GetPackages()) == 0 {
			cmd.PrintErrln("slipway: no package is called like that; another channel is searched with --channel")
		}
		return output.print(cmd.OutOrStdout(), raw, foundTable(&res))
	}
	return cmd
}

func searchCall(name, channel, platform string, most int) call {
	query := url.Values{"q": {name}, "max": {strconv.Itoa(most)}}
	for key, value := range map[string]string{"channel": channel, "platform": platform} {
		if value != "" {
			query.Set(key, value)
		}
	}
	return call{method: http.MethodGet, path: "/v1alpha1/conda/packages", query: query, signed: true}
}

func foundTable(res *condav1.SearchPackagesResponse) table {
	if len(res.GetPackages()) == 0 {
		return nil
	}
	t := table{{"PACKAGE", "NEWEST", "CHANNEL", "FOR"}}
	for _, p := range res.GetPackages() {
		t = append(t, []string{p.GetName(), p.GetVersion(), p.GetChannel(), strings.Join(p.GetPlatforms(), ", ")})
	}
	if more := int(res.GetTotal()) - len(res.GetPackages()); more > 0 {
		t = append(t, nil, []string{fmt.Sprintf("and %d more", more)})
	}
	return t
}

// versions asks for the versions of one package.
func (c *client) versions(ctx context.Context, channel, name string, most int) ([]byte, table, error) {
	var res condav1.DescribePackageResponse
	path := "/v1alpha1/conda/packages/" + url.PathEscape(channel) + "/" + url.PathEscape(name)
	raw, err := c.do(ctx, call{method: http.MethodGet, path: path, signed: true}, &res)
	if err != nil {
		return nil, nil, err
	}
	t := table{{"VERSION", "BUILD", "FOR", "DOWNLOAD", "MADE", "LICENCE"}}
	for _, v := range res.GetVersions() {
		version, license := v.GetVersion(), v.GetLicense()
		for _, b := range v.GetBuilds() {
			if len(t) > most {
				return raw, append(t, []string{"…"}), nil
			}
			made, _, _ := strings.Cut(b.GetDate(), "T")
			t = append(t, []string{version, b.GetBuild(), b.GetSubdir(), fmt.Sprintf("%8s", bytesText(b.GetSize())), made, license})
			version, license = "", "" // said once
		}
	}
	return raw, t, nil
}

// offersPackages has a shell offer names of packages that begin as the word does.
func (s *settings) offersPackages() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		channel, name, ok := strings.Cut(word, "::")
		if !ok {
			channel, name = "", word
		}
		if name == "" || strings.ContainsAny(name, "=<>! [:") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list := func(ctx context.Context, c *client) ([]cobra.Completion, error) {
			var res condav1.SearchPackagesResponse
			_, err := c.do(ctx, searchCall(name, channel, "", 50), &res)
			var all []cobra.Completion
			for _, p := range res.GetPackages() {
				if strings.HasPrefix(p.GetName(), name) {
					all = append(all, offer(strings.TrimSuffix(word, name)+p.GetName(), p.GetVersion()+" of "+p.GetChannel()))
				}
			}
			return all, err
		}
		return s.offers(list)(cmd, args, word)
	}
}
