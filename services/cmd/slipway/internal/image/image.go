// Package image implements the commands that request images, and those about requests and
// their builds.
package image

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/layer"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// imageFlags are the flags of changes to an image.
type imageFlags struct {
	env        usage.Assignments
	layers     []string
	includes   []string
	entrypoint []string
	cmd        []string
	workdir    string
	platform   string
	workspace  *string
	scan       scanFlags
	Output     *output.Format
}

// Command returns `slipway image`.
func Command(s *session.Settings) *cobra.Command {
	var f imageFlags
	var frozen frozenFlags
	cmd := &cobra.Command{
		Use:   "image REF",
		Short: "Get a name to pull an image by, optionally with changes",
		Long: `Get a name to pull an image by, optionally with changes.

Only the name is printed. The image is not copied: it is assembled during the
pull. With --freeze it is copied once, with its changes, to your own repository.
With --sif a Singularity image is built from it, with its changes: the name is
for singularity pull, and ` + "`slipway pull NAME --sif FILE`" + ` saves the file.

A layer is a directory, a tar.gz file, or the URL of one. The same directory
always gives the same layer: entries are in the order of their paths and belong
to root, and have no times; modes and symbolic links are kept, a file with
several hard links is stored once for each, and extended attributes are
omitted. A directory or file is sent with the request, up to 14,000,000 characters of
base64 (10.5 MB). A URL is downloaded once, here, to compute its digests; the
server reads it again with each pull.

--include adds the layers of other images on top, above those of --layer: only
their files. The layers are not copied, and are read with your credentials; each
image must exist for the platform.

--entrypoint and --cmd are given once for each element, not as a shell would
write them: --cmd=echo --cmd='hello world'.`,
		Example: `  docker pull $(slipway image ubuntu:24.04 --env GREETING=hello --layer ./tools)
  docker pull $(slipway image ubuntu:24.04 --include registry.example.org/team/tools:2)
  slipway image quay.io/biocontainers/samtools:1.20--h50ea8bc_0 --platform linux/arm64 -o json
  slipway image ubuntu:24.04 --freeze registry.example.org/team/images --await
  slipway pull $(slipway image ubuntu:24.04 --sif) --sif ubuntu.sif`,
		Args: usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, &frozen, args[0]) },
	}
	f.add(cmd, s)
	frozen.add(cmd)
	return cmd
}

func (f *imageFlags) add(cmd *cobra.Command, s *session.Settings) {
	flags := cmd.Flags()
	flags.Var(&f.env, "env", "An environment variable, `NAME=value`; may be repeated.")
	flags.StringArrayVar(&f.layers, "layer", nil, "A `layer` to add on top: a directory, a tar.gz file or its http(s) URL; may be repeated, lowest first.")
	flags.StringArrayVar(&f.includes, "include", nil, "An `image` whose layers are added on top, above those of --layer; may be repeated up to ten times, lowest first.")
	flags.StringArrayVar(&f.entrypoint, "entrypoint", nil, "One `element` of the program to run instead of the image's own; repeated for each.")
	flags.StringArrayVar(&f.cmd, "cmd", nil, "One `element` of the default arguments instead of the image's own; repeated for each.")
	flags.StringVar(&f.workdir, "workdir", "", "The `directory` to start in instead of the image's own.")
	flags.StringVar(&f.platform, "platform", "", "The platform of a multi-platform image, e.g. linux/arm64 (default: the server's, linux/amd64).")
	f.scan.add(cmd)
	f.workspace = session.WorkspaceFlag(cmd, s, "whose registry credentials are used")
	f.Output = output.Flag(cmd, &containerv1.SubmitContainerResponse{})
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64")
	usage.CompleteFlag(cmd, "env")
	usage.CompleteFlag(cmd, "include")
}

func (f *imageFlags) run(cmd *cobra.Command, s *session.Settings, frozen *frozenFlags, ref string) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	req := &containerv1.ContainerRequest{ContainerImage: ref}
	if err := frozen.target(cmd, req); err != nil {
		return err
	}
	if err := f.fill(cmd, s, c, req); err != nil {
		return err
	}
	raw, res, err := c.Submit(cmd.Context(), req)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", ref, err)
	}
	if err := frozen.wait(cmd, s, c, res); err != nil {
		return err
	}
	return f.Output.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetTargetImage()}})
}

// fill sets the fields of a request from the flags.
func (f *imageFlags) fill(cmd *cobra.Command, s *session.Settings, c *session.Client, req *containerv1.ContainerRequest) error {
	req.ContainerPlatform, req.ContainerIncludes = f.platform, f.includes
	if err := f.scan.fill(req); err != nil {
		return err
	}
	workspace, err := c.Workspace(cmd.Context(), *f.workspace)
	if err != nil {
		return err
	}
	if workspace != 0 {
		req.PlatformWorkspaceId = &workspace
	}
	config := &containerv1.ContainerConfig{Entrypoint: f.entrypoint, Cmd: f.cmd, Env: f.env, WorkingDir: f.workdir}
	for _, source := range f.layers {
		l, err := layer.Read(cmd.Context(), source, s.Timeout, nil, cmd.ErrOrStderr())
		if err != nil {
			return fmt.Errorf("preparing the layer %s: %w", source, err)
		}
		config.Layers = append(config.Layers, l)
	}
	if proto.Size(config) > 0 {
		req.ContainerConfig = config
	}
	return nil
}
