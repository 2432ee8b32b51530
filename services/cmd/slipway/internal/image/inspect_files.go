package image

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// listedFlags are the flags that select a layer and its files.
type listedFlags struct {
	layer, filter, sort, page string
	most                      int
}

func (f *listedFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.layer, "files", "", "Show the files that this `layer` adds and removes: its digest, a prefix of it, or its number; 1 is the lowest.")
	flags.StringVar(&f.filter, "filter", "", "With --files: only paths with this `text`, in upper or lower case.")
	flags.StringVar(&f.sort, "sort", "", "With --files: by path (the default), or by size, the largest first.")
	flags.IntVar(&f.most, "max", 0, "With --files: how many to show, 1 to 10000 (default: the server's, 1000).")
	flags.StringVar(&f.page, "page", "", "With --files: the continuation token that the previous page ended with.")
	for _, name := range []string{"files", "filter", "max", "page"} {
		usage.CompleteFlag(cmd, name)
	}
	usage.CompleteFlag(cmd, "sort", "path", "size")
}

// check rejects flags that have no effect.
func (f *listedFlags) check() error {
	if f.layer == "" && (f.filter != "" || f.sort != "" || f.most != 0 || f.page != "") {
		return usage.Errorf("--filter, --sort, --max and --page are for --files LAYER")
	}
	return nil
}

// query returns the query of the flags.
func (f *listedFlags) query(layer, platform string) url.Values {
	q := url.Values{"layer": {layer}}
	if f.most != 0 {
		q.Set("max", strconv.Itoa(f.most))
	}
	for name, value := range map[string]string{"platform": platform, "filter": f.filter, "sort": f.sort, "pageToken": f.page} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// show prints the files of a layer.
func (f *listedFlags) show(cmd *cobra.Command, c *session.Client, image *inspectv1.ImageQuery, platform string, format *output.Format) error {
	layer, err := f.find(cmd.Context(), c, image, platform)
	if err != nil {
		return fmt.Errorf("inspecting %s: %w", image.GetContainerImage(), err)
	}
	var res inspectv1.ListLayerFilesResponse
	call := session.Call{Method: http.MethodPost, Path: "/v1alpha1/inspect/files", Query: f.query(layer, platform), Signed: true, Body: image}
	raw, err := c.Do(cmd.Context(), call, &res)
	if err != nil {
		return fmt.Errorf("listing the files of %s: %w", layer, err)
	}
	none := "The layer changes no files."
	if f.filter != "" {
		none = "No path in the layer has this text."
	}
	err = format.List(cmd, raw, filesTable(&res, format.Kind == "name"), none)
	if err == nil && res.GetNextPageToken() != "" && !format.IsDocument() {
		cmd.PrintErrln("There are more: --page", output.Printable(res.GetNextPageToken()))
	}
	return err
}

// find returns the digest of the selected layer.
func (f *listedFlags) find(ctx context.Context, c *session.Client, image *inspectv1.ImageQuery, platform string) (string, error) {
	if d, err := digest.Parse(f.layer); err == nil {
		return d.String(), nil
	}
	_, res, err := c.Inspect(ctx, image, platform)
	if err != nil {
		return "", err
	}
	layers := res.GetContainer().GetManifest().GetLayers()
	if n, err := strconv.Atoi(f.layer); err == nil && n >= 1 && n <= len(layers) {
		return layers[n-1].GetDigest(), nil
	}
	found := map[string]bool{}
	for _, l := range layers {
		_, hex, _ := strings.Cut(l.GetDigest(), ":")
		if strings.HasPrefix(l.GetDigest(), f.layer) || strings.HasPrefix(hex, f.layer) {
			found[l.GetDigest()] = true
		}
	}
	for d := range found {
		if len(found) == 1 {
			return d, nil
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("the digests of %d layers begin with %s; give more digits", len(found), f.layer)
	}
	return "", fmt.Errorf("there is no layer %s: the image has %d", f.layer, len(layers))
}

// filesTable has paths last, where they may be long, unless only names are printed.
func filesTable(r *inspectv1.ListLayerFilesResponse, names bool) output.Table {
	t := output.Table{{"TYPE", "MODE", "SIZE", "PATH"}}
	for _, f := range r.GetFiles() {
		path, size := f.GetPath(), ""
		if names {
			t = append(t, []string{path})
			continue
		}
		if f.Size != nil {
			size = output.BytesText(f.GetSize())
		}
		if f.GetLinkTarget() != "" {
			path += " -> " + f.GetLinkTarget()
		}
		t = append(t, []string{f.GetType(), f.GetMode(), size, path})
	}
	return t
}
