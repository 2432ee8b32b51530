package image

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// logTail is the number of last lines of a log that are shown with a build.
const logTail = 15

func buildsShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a build: its recipe, packages, layers, digest, and the end of its log",
		Long: `Show a build: its recipe, packages, layers, digest, and the end of its log.

` + idForms + `
With --output json only the build's record is printed.`,
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, &buildv1.Build{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		id, err := BuildOf(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		return showBuild(cmd, s, id, format)
	})
	return cmd
}

// showBuild prints everything known about a build.
func showBuild(cmd *cobra.Command, s *session.Settings, id string, format *output.Format) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	var b buildv1.Build
	raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: subject{build: id}.path()}, &b)
	if err != nil {
		return fmt.Errorf("reading the build: %w", err)
	}
	if format.IsDocument() {
		return format.Print(cmd.OutOrStdout(), raw, nil)
	}
	t, err := buildTable(cmd.Context(), c, &b)
	if err != nil {
		return err
	}
	return format.Print(cmd.OutOrStdout(), raw, t)
}

// buildTable returns the table of a build with its lock, layers and log, which are read with
// other calls. It omits those that do not exist or that the user may not read.
func buildTable(ctx context.Context, c *session.Client, b *buildv1.Build) (output.Table, error) {
	var t output.Table
	t.Fact("Build", b.GetBuildId())
	t.Fact("Status", statusText(b))
	t.Text("Message", b.GetMessage())
	t.Fact("Image", pulledAs(b))
	t.Fact("Digest", b.GetDigest())
	t.Fact("Platform", b.GetPlatform())
	t.Fact("Compression", (&compression{b.GetBuildCompression()}).String())
	t.Fact("User", output.Number(b.UserId))
	t.Fact("Started", output.FormatTime(b.GetStartTime()))
	if b.Duration != nil {
		t.Fact("Duration", output.Seconds(b.Duration))
	}
	t.Text("Recipe", b.GetContainerFile())
	t.Text("Conda", b.GetCondaFile())
	lock, err := lockLines(ctx, c, b.GetBuildId())
	if err != nil {
		return nil, err
	}
	t.Fact("Packages", lock...)
	layers, err := layerLines(ctx, c, b)
	if err != nil {
		return nil, err
	}
	t.Fact("Layers", layers...)
	log, err := logEnd(ctx, c, b.GetBuildId())
	if err != nil {
		return nil, err
	}
	t.Fact("Log", log...)
	return t, nil
}

// pulledAs describes how the image of a build is pulled.
func pulledAs(b *buildv1.Build) string {
	switch {
	case !b.GetServed():
		return b.GetTargetImage()
	case b.Succeeded != nil && !b.GetSucceeded():
		return ""
	}
	return "`slipway get " + b.GetBuildId() + "` prints a name to pull it by"
}

// lockLines returns the packages of a build's lock.
func lockLines(ctx context.Context, c *session.Client, id string) ([]string, error) {
	res, err := c.BuildLock(ctx, id)
	if err != nil {
		return nil, session.UnlessRefused(err)
	}
	var out []string
	for _, l := range res.GetLocks() {
		for _, p := range l.GetPackages() {
			line := p.GetName() + " " + p.GetVersion() + " " + p.GetBuild()
			if len(res.GetLocks()) > 1 {
				line = l.GetPlatform() + " " + line
			}
			out = append(out, line)
		}
	}
	return out, nil
}

// layerLines returns the layers of a built image, or the platforms of a multi-platform image.
func layerLines(ctx context.Context, c *session.Client, b *buildv1.Build) ([]string, error) {
	if !b.GetSucceeded() || strings.HasPrefix(b.GetTargetImage(), orasScheme) {
		return nil, nil
	}
	_, named, err := freshName(ctx, c, subject{build: b.GetBuildId()})
	if err != nil {
		return nil, session.UnlessRefused(err)
	}
	var res inspectv1.InspectImageResponse
	image := &inspectv1.ImageQuery{ContainerImage: named.GetTargetImage()}
	if _, err = c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha1/inspect", Signed: true, Body: image}, &res); err != nil {
		return nil, session.UnlessRefused(err)
	}
	if res.GetIndex() == nil {
		return layersOf(res.GetContainer()), nil
	}
	var out []string
	for _, m := range res.GetIndex().GetManifests() {
		out = append(out, m.GetDigest()+" "+platformName(m.GetPlatform()))
	}
	return out, nil
}

// logEnd returns the end of a build's log.
func logEnd(ctx context.Context, c *session.Client, id string) (out []string, err error) {
	err = follow.ReadLog(ctx, c, id, func(line string) {
		if out = append(out, line); len(out) > logTail {
			out = out[1:]
		}
	})
	return out, session.UnlessRefused(err)
}
