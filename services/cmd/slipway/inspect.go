package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
)

func inspectCommand(s *settings) *cobra.Command {
	var platform string
	cmd := &cobra.Command{
		Use:   "inspect REF",
		Short: "Show what an image is made of, or which platforms it has",
		Long: `Show what an image is made of, or which platforms it has.

A multi-platform image is shown as the table of its platforms; --platform shows
one of them.`,
		Example: "  slipway inspect ubuntu:24.04\n  slipway inspect ubuntu:24.04 --platform linux/arm64",
		Args:    exactly(1),
	}
	cmd.Flags().StringVar(&platform, "platform", "", "The platform of a multi-platform image to show, e.g. linux/arm64.")
	name := workspaceFlag(cmd, s, "whose registry credentials are used")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		image := &inspectv1.ImageQuery{ContainerImage: args[0]}
		c, err := s.client()
		if err != nil {
			return err
		}
		workspace, err := c.workspace(cmd.Context(), *name)
		if err != nil {
			return err
		}
		if workspace != 0 {
			image.PlatformWorkspaceId = &workspace
		}
		what := call{method: http.MethodPost, path: "/v1alpha1/inspect", signed: true, body: image}
		if platform != "" {
			what.query = url.Values{"platform": {platform}}
		}
		var res inspectv1.InspectImageResponse
		raw, err := c.do(cmd.Context(), what, &res)
		if err == nil && res.GetContainer() == nil && res.GetIndex() == nil {
			err = errors.New("the answer describes no image; check --server")
		}
		if err != nil {
			return fmt.Errorf("inspecting %s: %w", args[0], err)
		}
		if res.GetIndex() != nil && platform == "" {
			return output.print(cmd.OutOrStdout(), raw, indexTable(args[0], res.GetIndex()))
		}
		return output.print(cmd.OutOrStdout(), raw, containerTable(res.GetContainer()))
	}
	return cmd
}

func containerTable(i *inspectv1.ContainerInspection) table {
	var t table
	run := i.GetConfig().GetConfig()
	t.fact("Name", fullName(i))
	t.fact("Digest", i.GetDigest())
	t.fact("Type", i.GetManifest().GetMediaType())
	t.fact("Architecture", i.GetConfig().GetArchitecture())
	t.fact("Created", i.GetConfig().GetCreated())
	t.fact("Entrypoint", words(run.GetEntrypoint()))
	t.fact("Cmd", words(run.GetCmd()))
	t.fact("Env", run.GetEnv()...)
	t.fact("Working dir", run.GetWorkingDir())
	t.fact("User", run.GetUser())
	t.fact("Layers", layersOf(i)...)
	return t
}

// layersOf are the layers of an image with their sizes, one a line.
func layersOf(i *inspectv1.ContainerInspection) []string {
	layers := i.GetManifest().GetLayers()
	lines := make([]string, len(layers))
	for n, l := range layers {
		lines[n] = fmt.Sprintf("%s %9s", l.GetDigest(), bytesText(l.GetSize()))
	}
	return lines
}

func fullName(i *inspectv1.ContainerInspection) string {
	separator := ":"
	if strings.Contains(i.GetReference(), ":") {
		separator = "@" // a digest
	}
	return i.GetRegistry() + "/" + i.GetImageName() + separator + i.GetReference()
}

func indexTable(name string, i *inspectv1.IndexInspection) table {
	var t table
	t.fact("Name", name)
	t.fact("Digest", i.GetDigest())
	t.fact("Type", i.GetMediaType())
	t = append(t, nil, []string{"PLATFORM", "DIGEST"})
	for _, m := range i.GetManifests() {
		t = append(t, []string{platformName(m.GetPlatform()), m.GetDigest()})
	}
	return t
}

func platformName(p *inspectv1.Platform) string {
	if p == nil {
		return "-"
	}
	name := p.GetOs() + "/" + p.GetArchitecture()
	if p.GetVariant() != "" {
		name += "/" + p.GetVariant()
	}
	return name
}
