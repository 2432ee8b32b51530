// Package catalog has the commands that find images with permanent names, and print how to cite them.
package catalog

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

const path = "/v1alpha1/catalog"

// Command returns `slipway catalog`.
func Command(s *session.Settings) *cobra.Command {
	var most int
	var own bool
	var from, of, license, sort string
	cmd := &cobra.Command{
		Use:   "catalog [WORD]...",
		Short: "List the images that were kept",
		Long: `List the images that were kept with --keep: their names do not expire, and are
public. Each WORD is the beginning of the name of a requested package, or of the
image. Without a WORD, all images are listed.

Images that were kept with --keep=organization are listed with --organization, for
the organisation of --workspace. Their names are secrets of its members.`,
		Example: "  slipway catalog samtools\n  slipway catalog --package htslib=1.20 --sort pulls\n  slipway catalog --organization --workspace lab/rnaseq\n  slipway catalog cite 3f9a0c12ab34cd56 --format cff > CITATION.cff",
		Args:    cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVar(&of, "package", "", "Only images with this package, as NAME or NAME=VERSION.")
	flags.StringVar(&license, "license", "", "Only images with a requested package whose licence contains this text.")
	flags.StringVar(&sort, "sort", "", "The order: newest (the default), pulls (most pulled first) or name.")
	flags.BoolVar(&own, "organization", false, "List the images of the organisation of --workspace instead of the public ones.")
	workspace := session.WorkspaceFlag(cmd, s, "whose organisation's images --organization lists")
	flags.IntVar(&most, "max", 0, "How many to show, 1 to 100 (default: the server's, 20).")
	flags.StringVar(&from, "page", "", "The continuation token that the previous page ended with.")
	for _, free := range []string{"package", "license", "max", "page"} {
		usage.CompleteFlag(cmd, free)
	}
	usage.CompleteFlag(cmd, "sort", "newest", "pulls", "name")
	format := output.Flag(cmd, &containerv1.ListCatalogResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		name, version, _ := strings.Cut(of, "=")
		query := url.Values{}
		for key, value := range map[string]string{
			"q": strings.Join(args, " "), "package": name, "version": strings.TrimPrefix(version, "="), "license": license, "sort": sort, "pageToken": from,
		} {
			if value != "" {
				query.Set(key, value)
			}
		}
		if most != 0 {
			query.Set("max", strconv.Itoa(most))
		}
		if own {
			id, err := c.Workspace(cmd.Context(), *workspace)
			switch {
			case err != nil:
				return err
			case id == 0:
				return usage.Errorf("--organization needs --workspace, a workspace of the organisation; slipway workspaces lists yours")
			}
			query.Set("workspaceId", strconv.FormatInt(id, 10))
		}
		var res containerv1.ListCatalogResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: path, Query: query, Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("reading the catalog: %w", err)
		}
		err = format.List(cmd, raw, table(&res, format.Kind == "wide"), "No image was found in the catalog; --keep keeps one")
		if err == nil && res.GetNextPageToken() != "" && !format.IsDocument() {
			cmd.PrintErrln("There are more: --page", output.Printable(res.GetNextPageToken()))
		}
		return err
	})
	cmd.AddCommand(cite(s))
	return cmd
}

func table(r *containerv1.ListCatalogResponse, wide bool) output.Table {
	t := output.Table{{"ID", "PACKAGES", "KEPT", "PULLS", "IMAGE"}}
	if wide {
		t[0] = append(t[0], "PLATFORM", "SIZE", "LICENCES", "DIGEST")
	}
	for _, i := range r.GetImages() {
		var packages, licenses []string
		for _, p := range i.GetPackages() {
			packages, licenses = append(packages, p.GetName()+" "+p.GetVersion()), append(licenses, p.GetLicense())
		}
		row := []string{i.GetId(), strings.Join(packages, ", "), output.FormatTime(i.GetCreationTime()), output.Number(i.Pulls), i.GetTargetImage()}
		if wide {
			row = append(row, i.GetContainerPlatform(), output.BytesText(i.GetSize()), strings.Join(licenses, ", "), i.GetDigest())
		}
		t = append(t, row)
	}
	return t
}

// inName finds the id in the name of a kept image.
var inName = regexp.MustCompile(`(?:^|/)(?:c/)?(` + image.KeptID + `)(?:/|$)`)

// cite returns `slipway catalog cite`.
func cite(s *session.Settings) *cobra.Command {
	format := "bibtex"
	cmd := &cobra.Command{
		Use:   "cite ID|IMAGE",
		Short: "Print how to cite an image of the catalog",
		Long: `Print how to cite an image of the catalog: for BibTeX, as CITATION.cff, or as the
ro-crate-metadata.json of an RO-Crate, with the digests of the image, of its lock
and of all packages.`,
		Example: "  slipway catalog cite 3f9a0c12ab34cd56\n  slipway catalog cite slipway.example.org/c/3f9a0c12ab34cd56/samtools:1.20 --format ro-crate > ro-crate-metadata.json",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&format, "format", format, "The format: bibtex, cff or ro-crate.")
	usage.CompleteFlag(cmd, "format", "bibtex", "cff", "ro-crate")
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		id := inName.FindStringSubmatch(args[0])
		if id == nil {
			return usage.Errorf("%q is neither the id nor the name of a kept image; slipway catalog lists them", args[0])
		}
		text, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: path + "/" + id[1] + "/citation", Query: url.Values{"format": {format}}, Signed: true}, nil)
		if err != nil {
			return fmt.Errorf("reading the citation: %w", err)
		}
		_, err = cmd.OutOrStdout().Write(text)
		return err
	})
	return cmd
}
