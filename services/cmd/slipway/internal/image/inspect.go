package image

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Inspect returns `slipway inspect`.
func Inspect(s *session.Settings) *cobra.Command {
	var platform string
	var packages bool
	var files listedFlags
	cmd := &cobra.Command{
		Use:   "inspect REF",
		Short: "Show the config and layers of an image, or its platforms",
		Long: `Show the config and layers of an image, or its platforms.

A multi-platform image is shown as the table of its platforms; --platform shows
one of them. --files shows what one layer adds and removes. --packages shows the
Conda packages of an image with the layer of each: from the lock in images that
Slipway has built, and from the records of installed packages in other images, for
which all layers are read.`,
		Example: "  slipway inspect ubuntu:24.04\n  slipway inspect ubuntu:24.04 --platform linux/arm64\n  slipway inspect ubuntu:24.04 --files 1 --sort size\n  slipway inspect slipway.example.org/wt/…/samtools:1.20 --packages",
		Args:    usage.Exactly(1),
	}
	cmd.Flags().StringVar(&platform, "platform", "", "The platform of a multi-platform image to show, e.g. linux/arm64.")
	files.add(cmd)
	cmd.Flags().BoolVar(&packages, "packages", false, "Show the Conda packages of the image, of all platforms or that of --platform.")
	name := session.WorkspaceFlag(cmd, s, "whose registry credentials are used")
	format := output.Flag(cmd, &inspectv1.InspectImageResponse{}, &inspectv1.ListLayerFilesResponse{}, &inspectv1.ListImagePackagesResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := files.check(); err != nil {
			return err
		}
		if packages && files.layer != "" {
			return usage.Errorf("--packages and --files exclude each other")
		}
		image := &inspectv1.ImageQuery{ContainerImage: args[0]}
		c, err := s.Client()
		if err != nil {
			return err
		}
		workspace, err := c.Workspace(cmd.Context(), *name)
		if err != nil {
			return err
		}
		if workspace != 0 {
			image.PlatformWorkspaceId = &workspace
		}
		if packages {
			return showPackages(cmd, c, image, platform, format)
		}
		if files.layer != "" {
			return files.show(cmd, c, image, platform, format)
		}
		raw, res, err := c.Inspect(cmd.Context(), image, platform)
		if err != nil {
			return fmt.Errorf("inspecting %s: %w", args[0], err)
		}
		if res.GetIndex() != nil && platform == "" {
			return format.Print(cmd.OutOrStdout(), raw, indexTable(args[0], res.GetIndex()))
		}
		return format.Print(cmd.OutOrStdout(), raw, containerTable(res.GetContainer()))
	}
	return cmd
}

func containerTable(i *inspectv1.ContainerInspection) output.Table {
	var t output.Table
	run := i.GetConfig().GetConfig()
	t.Fact("Name", fullName(i))
	t.Fact("Digest", i.GetDigest())
	t.Fact("Type", i.GetManifest().GetMediaType())
	t.Fact("Architecture", i.GetConfig().GetArchitecture())
	t.Fact("Created", i.GetConfig().GetCreated())
	t.Fact("Entrypoint", output.FormatCommand(run.GetEntrypoint()))
	t.Fact("Cmd", output.FormatCommand(run.GetCmd()))
	t.Fact("Env", run.GetEnv()...)
	t.Fact("Working dir", run.GetWorkingDir())
	t.Fact("User", run.GetUser())
	t.Fact("Layers", layersOf(i)...)
	return t
}

// layersOf returns the layers of an image with their sizes, one per line.
func layersOf(i *inspectv1.ContainerInspection) []string {
	layers := i.GetManifest().GetLayers()
	lines := make([]string, len(layers))
	for n, l := range layers {
		lines[n] = fmt.Sprintf("%s %9s", l.GetDigest(), output.BytesText(l.GetSize()))
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

func indexTable(name string, i *inspectv1.IndexInspection) output.Table {
	var t output.Table
	t.Fact("Name", name)
	t.Fact("Digest", i.GetDigest())
	t.Fact("Type", i.GetMediaType())
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
