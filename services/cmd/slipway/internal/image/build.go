package image

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/dockerfile"
	"slipway.dev/services/cmd/slipway/internal/layer"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// dockerfileFlags are the flags of a Dockerfile build, named like docker's.
type dockerfileFlags struct {
	file, context, target, tag string
	arguments                  usage.Assignments
}

// Build returns `slipway build`.
func Build(s *session.Settings) *cobra.Command {
	var f RecipeFlags
	var d dockerfileFlags
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build an image from a Dockerfile",
		Long: `Build an image from a Dockerfile, and get a name to pull it by.

Only the name is printed, immediately; a pull waits for the build. With --await
the build's log is shown on standard error, and the name is printed when the
image exists; the exit code reports success. Ctrl-C then leaves the build
running. An image that was built before is not built again.

With DIR, as with docker, the Dockerfile is the one in DIR and may COPY other files
from it. --target builds a stage, and --build-arg sets an ARG: both change the
Dockerfile before it is sent. -t is --freeze: it pushes to your own repository.

The Dockerfile may COPY the files of DIR, or of --context: a directory, a tar.gz file or
the URL of one. A .dockerignore file in the directory, or DOCKERFILE.dockerignore
beside the Dockerfile, is honoured. Data folders of a slipwayd, sockets, pipes
and devices are left out; files that look like secrets are warned of. A directory or file is sent with the request,
up to 14,000,000 characters of base64 (10.5 MB).

--env, --layer, --include, --entrypoint, --cmd and --workdir are applied to the built image,
as ` + "`slipway image --help`" + ` says.`,
		Example: `  docker run --rm $(slipway build . --await)
  slipway build . -t registry.example.org/team/tools --build-arg VERSION=2 --target tools --await
  slipway build -f Dockerfile --platform linux/amd64,linux/arm64
  slipway build -f Dockerfile --freeze registry.example.org/team/tools --await
  echo 'FROM alpine:3.20' | slipway build -f -`,
		Args: usage.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.mergeFlags(cmd, &f, args); err != nil {
				return err
			}
			req, err := d.request(cmd, s)
			if err != nil {
				return err
			}
			return f.Run(cmd, s, req)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f.Add(cmd, s)
	d.add(cmd)
	return cmd
}

func (d *dockerfileFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&d.file, "file", "f", "Dockerfile", "The Dockerfile; - for standard input (default: the one in DIR).")
	flags.StringVar(&d.context, "context", "", "The `directory`, tar.gz file or http(s) URL of the files that the Dockerfile may COPY (default: DIR, or none).")
	flags.StringVar(&d.target, "target", "", "The `stage` to build, by its name or number (default: the last).")
	flags.StringVarP(&d.tag, "tag", "t", "", "Push the image permanently to this `repository`, as --freeze does; its tag is derived from its content.")
	flags.Var(&d.arguments, "build-arg", "The value of an ARG, `NAME=value`; may be repeated. Do not use it for secrets: it is stored in the recipe.")
	usage.CompleteDirs(cmd, "context")
	for _, name := range []string{"target", "tag", "build-arg"} {
		usage.CompleteFlag(cmd, name)
	}
}

// mergeFlags combines flags with the same meaning.
func (d *dockerfileFlags) mergeFlags(cmd *cobra.Command, f *RecipeFlags, args []string) error {
	if len(args) == 1 {
		if d.context != "" {
			return usage.Errorf("DIR and --context name the same; give one")
		}
		d.context = args[0]
		if !cmd.Flags().Changed("file") {
			d.file = filepath.Join(args[0], "Dockerfile")
		}
	}
	if d.tag == "" {
		return nil
	}
	if _, tag, ok := strings.Cut(d.tag[strings.LastIndex(d.tag, "/")+1:], ":"); ok && strings.Contains(d.tag, "/") {
		return usage.Errorf("-t %s: the tag is derived from the image's content; omit :%s", d.tag, tag)
	}
	if f.freeze != "" && f.freeze != d.tag {
		return usage.Errorf("-t and --freeze name two repositories; one is enough")
	}
	f.freeze = d.tag
	return nil
}

// request returns the request for the Dockerfile, with the changes of the flags, and its
// context.
func (d *dockerfileFlags) request(cmd *cobra.Command, s *session.Settings) (*containerv1.ContainerRequest, error) {
	text, err := contents(cmd, d.file)
	if err != nil {
		return nil, err
	}
	if d.target != "" {
		if text, err = dockerfile.UntilStage(text, d.target); err != nil {
			return nil, err
		}
	}
	if text, err = dockerfile.WithArguments(text, d.arguments.Values()); err != nil {
		return nil, err
	}
	req := &containerv1.ContainerRequest{ContainerFile: base64.StdEncoding.EncodeToString([]byte(text))}
	if d.context == "" {
		return req, nil
	}
	var ignored *layer.Ignored
	if info, err := os.Stat(d.context); err == nil && info.IsDir() {
		if ignored, err = layer.ReadIgnored(d.file, d.context); err != nil {
			return nil, err
		}
	}
	if req.BuildContext, err = layer.Read(cmd.Context(), d.context, s.Timeout, ignored, cmd.ErrOrStderr()); err != nil {
		return nil, fmt.Errorf("preparing the context %s: %w", d.context, err)
	}
	return req, nil
}
