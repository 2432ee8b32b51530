package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
)

// logTail is how many of the last lines of a log are shown with a build.
const logTail = 15

func buildsShowCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a build: its recipe, packages, layers, digest, and the end of its log",
		Long: `Show a build: its recipe, packages, layers, digest, and the end of its log.

` + idForms + `
With --output json it is the build's record alone.`,
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		id, err := c.buildOf(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return showBuild(cmd, s, id, output)
	}
	return cmd
}

// showBuild prints all that is known of a build.
func showBuild(cmd *cobra.Command, s *settings, id string, output *format) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	var b buildv1.Build
	raw, err := c.do(cmd.Context(), call{method: http.MethodGet, path: subject{build: id}.path()}, &b)
	if err != nil {
		return fmt.Errorf("reading the build: %w", err)
	}
	if output.isDocument() {
		return output.print(cmd.OutOrStdout(), raw, nil)
	}
	t, err := c.buildTable(cmd.Context(), &b)
	if err != nil {
		return err
	}
	return output.print(cmd.OutOrStdout(), raw, t)
}

// buildTable shows a build with what other calls know of it. What there is not, or is
// not for the caller, is left out.
func (c *client) buildTable(ctx context.Context, b *buildv1.Build) (table, error) {
	var t table
	t.fact("Build", b.GetBuildId())
	t.fact("Status", verdict(b))
	t.text("Message", b.GetMessage())
	t.fact("Image", pulledAs(b))
	t.fact("Digest", b.GetDigest())
	t.fact("Platform", b.GetPlatform())
	t.fact("Compression", (&compression{b.GetBuildCompression()}).String())
	t.fact("User", number(b.UserId))
	t.fact("Started", moment(b.GetStartTime()))
	if b.Duration != nil {
		t.fact("Duration", seconds(b.Duration))
	}
	t.text("Recipe", b.GetContainerFile())
	t.text("Conda", b.GetCondaFile())
	lock, err := c.lockLines(ctx, b.GetBuildId())
	if err != nil {
		return nil, err
	}
	t.fact("Packages", lock...)
	layers, err := c.layerLines(ctx, b)
	if err != nil {
		return nil, err
	}
	t.fact("Layers", layers...)
	log, err := c.logEnd(ctx, b.GetBuildId())
	if err != nil {
		return nil, err
	}
	t.fact("Log", log...)
	return t, nil
}

// pulledAs says how the image of a build is pulled.
func pulledAs(b *buildv1.Build) string {
	switch {
	case !b.GetServed():
		return b.GetTargetImage()
	case b.Succeeded != nil && !b.GetSucceeded():
		return ""
	}
	return "`slipway get " + b.GetBuildId() + "` prints a name to pull it by"
}

// lockLines are the packages that the request of a build stood for.
func (c *client) lockLines(ctx context.Context, id string) ([]string, error) {
	var res buildv1.GetBuildLockResponse
	if _, err := c.do(ctx, buildLockCall(id, ""), &res); err != nil {
		return nil, unlessRefused(err)
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

// layerLines are the layers of an image that was built, or its platforms.
func (c *client) layerLines(ctx context.Context, b *buildv1.Build) ([]string, error) {
	if !b.GetSucceeded() || strings.HasPrefix(b.GetTargetImage(), orasScheme) {
		return nil, nil
	}
	_, named, err := c.name(ctx, subject{build: b.GetBuildId()})
	if err != nil {
		return nil, unlessRefused(err)
	}
	var res inspectv1.InspectImageResponse
	image := &inspectv1.ImageQuery{ContainerImage: named.GetTargetImage()}
	if _, err = c.do(ctx, call{method: http.MethodPost, path: "/v1alpha1/inspect", signed: true, body: image}, &res); err != nil {
		return nil, unlessRefused(err)
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

// logEnd is the end of a build's log.
func (c *client) logEnd(ctx context.Context, id string) (out []string, err error) {
	err = readLog(ctx, c, id, func(line string) {
		if out = append(out, line); len(out) > logTail {
			out = out[1:]
		}
	})
	return out, unlessRefused(err)
}
