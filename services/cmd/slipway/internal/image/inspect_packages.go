package image

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// shortDigest is the length of a digest in a table, as docker prints it.
const shortDigest = len("sha256:") + 12

// showPackages prints the Conda packages of an image, for one platform or, without one, all.
func showPackages(cmd *cobra.Command, c *session.Client, image *inspectv1.ImageQuery, platform string, format *output.Format) error {
	call := session.Call{Method: http.MethodPost, Path: "/v1alpha1/inspect/packages", Signed: true, Body: image}
	if platform != "" {
		call.Query = url.Values{"platform": {platform}}
	}
	var res inspectv1.ListImagePackagesResponse
	raw, err := c.Do(cmd.Context(), call, &res)
	if err != nil {
		return fmt.Errorf("listing the packages of %s: %w", image.GetContainerImage(), err)
	}
	if !format.IsDocument() {
		for _, p := range res.GetPlatforms() {
			if p.GetProblem() != "" {
				cmd.PrintErrln(output.Printable(p.GetPlatform() + ": " + p.GetProblem()))
			}
		}
	}
	return format.List(cmd, raw, packagesTable(&res), "The image has no packages.")
}

// packagesTable has a column for the platform and for the environment's folder if there are several.
func packagesTable(res *inspectv1.ListImagePackagesResponse) output.Table {
	platforms, prefixes := len(res.GetPlatforms()) > 1, hasSeveralPrefixes(res)
	row := func(platform, prefix string, cells ...string) []string {
		if prefixes {
			cells = append(cells, prefix)
		}
		if platforms {
			cells = append(cells, platform)
		}
		return cells
	}
	t := output.Table{row("PLATFORM", "PREFIX", "NAME", "VERSION", "BUILD", "CHANNEL", "LICENSE", "LAYER")}
	for _, of := range res.GetPlatforms() {
		for _, p := range of.GetPackages() {
			channel := p.GetChannel()
			if p.GetKind() == "conda" && p.GetSubdir() != "" && !strings.HasSuffix(channel, "/"+p.GetSubdir()) {
				channel += "/" + p.GetSubdir()
			}
			layer := p.GetLayer()
			t = append(t, row(of.GetPlatform(), p.GetPrefix(), p.GetName(), p.GetVersion(), p.GetBuild(), channel, p.GetLicense(), layer[:min(len(layer), shortDigest)]))
		}
	}
	return t
}

// hasSeveralPrefixes reports whether packages are in several environments.
func hasSeveralPrefixes(res *inspectv1.ListImagePackagesResponse) bool {
	first := ""
	for _, of := range res.GetPlatforms() {
		for _, p := range of.GetPackages() {
			if first == "" {
				first = p.GetPrefix()
			}
			if p.GetPrefix() != first {
				return true
			}
		}
	}
	return false
}
