// Package patch has the commands that find images with an outdated package, and that exchange
// packages in images.
package patch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Outdated returns `slipway outdated`.
func Outdated(s *session.Settings) *cobra.Command {
	var most int
	var from string
	var all bool
	cmd := &cobra.Command{
		Use:   "outdated PACKAGE VERSION",
		Short: "List your images that have a package in an older version",
		Long: `List your images that have a package in an older version than VERSION, newest
first: those whose names are valid, and frozen images. The package is a Conda
package or a wheel of an image that was made of Conda packages; other images are
not listed. This requires an access token. ` + "`slipway patch`" + ` exchanges the package.`,
		Example: "  slipway outdated openssl 3.0.14\n  slipway outdated 'openssl<3.0.14' -o name | xargs -n 1 slipway describe",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := parseBound(args)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.BoolVar(&all, "all", false, "List the images of all users, for administrators.")
	flags.IntVar(&most, "max", 0, "How many to show, 1 to 1000 (default: the server's, 100).")
	flags.StringVar(&from, "page", "", "The continuation token that the previous page ended with.")
	usage.CompleteFlag(cmd, "max")
	usage.CompleteFlag(cmd, "page")
	name := session.WorkspaceFlag(cmd, s, "whose images are listed")
	format := output.Flag(cmd, &containerv1.ListOutdatedImagesResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		b, err := parseBound(args)
		if err != nil {
			return err
		}
		query, err := queryOf(cmd.Context(), c, b, *name, all)
		if err != nil {
			return err
		}
		if most != 0 {
			query.Set("max", strconv.Itoa(most))
		}
		if from != "" {
			query.Set("pageToken", from)
		}
		raw, res, err := list(cmd.Context(), c, query)
		if err != nil {
			return err
		}
		err = format.List(cmd, raw, imagesTable(res, format.Kind == "wide" || all), "No kept image of Conda packages has "+output.Printable(b.String()))
		if err == nil && res.GetUnindexed() > 0 {
			cmd.PrintErrf("The packages of %d more images are not known yet; repeat the command later\n", res.GetUnindexed())
		}
		if err == nil && res.GetNextPageToken() != "" && !format.IsDocument() {
			cmd.PrintErrln("There are more: --page", output.Printable(res.GetNextPageToken()))
		}
		return err
	})
	return cmd
}

// queryOf returns the query for the images with an outdated package.
func queryOf(ctx context.Context, c *session.Client, b bound, workspace string, all bool) (url.Values, error) {
	query, err := c.InWorkspace(ctx, workspace)
	if err != nil {
		return nil, err
	}
	query.Set("package", b.name)
	query.Set("below", b.below)
	if all {
		query.Set("all", "true")
	}
	return query, nil
}

// list returns a page of images with an outdated package.
func list(ctx context.Context, c *session.Client, query url.Values) ([]byte, *containerv1.ListOutdatedImagesResponse, error) {
	var res containerv1.ListOutdatedImagesResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/images/outdated", Query: query, Signed: true}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the images: %w", err)
	}
	return raw, &res, nil
}

func imagesTable(r *containerv1.ListOutdatedImagesResponse, wide bool) output.Table {
	t := output.Table{{"ID", "HAS", "CREATED", "PATCHED", "IMAGE"}}
	if wide {
		t[0] = append(t[0], "PLATFORM", "BUILD", "WORKSPACE", "USER")
	}
	for _, i := range r.GetImages() {
		patched := "no"
		if i.GetReplacedBy() != "" {
			patched = "yes"
		}
		row := []string{i.GetRequestId(), has(i), output.FormatTime(i.GetCreationTime()), patched, i.GetContainerImage()}
		if wide {
			row = append(row, i.GetContainerPlatform(), i.GetBuildId(), output.Number(i.WorkspaceId), output.Number(i.UserId))
		}
		t = append(t, row)
	}
	return t
}

// has returns the versions of the package in an image.
func has(i *containerv1.OutdatedImage) string {
	var out []string
	for _, p := range i.GetPackages() {
		text := p.GetVersion()
		if p.GetKind() == "pypi" {
			text += " (wheel)"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
