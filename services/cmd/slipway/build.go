package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

func buildCommand(s *settings) *cobra.Command {
	var f recipeFlags
	var file, dir string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image from a Dockerfile",
		Long: `Build an image from a Dockerfile, and get a name to pull it by.

The name alone is printed, at once: who pulls it waits for the build. With
--await the build's log is shown on standard error, and the name is printed when
the image is there; the exit code tells whether it is. Ctrl-C then leaves the
build running. What was built before is not built again.

The Dockerfile may COPY the files of --context: a directory, a tar.gz file or
the URL of one. A .dockerignore file in the directory, or DOCKERFILE.dockerignore
beside the Dockerfile, is honoured. Data folders of a slipwayd, sockets, pipes
and devices are left out; files that look like secrets are warned of. A directory or file is sent with the request,
up to 14,000,000 characters of base64 (10.5 MB).

--env, --layer, --entrypoint, --cmd and --workdir go on top of the built image,
as ` + "`slipway image --help`" + ` says.`,
		Example: `  docker run --rm $(slipway build -f Dockerfile --context . --await)
  slipway build -f Dockerfile --platform linux/amd64,linux/arm64
  slipway build -f Dockerfile --freeze registry.example.org/team/tools --await
  echo 'FROM alpine:3.20' | slipway build -f -`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := dockerfileRequest(cmd, s, file, dir)
			if err != nil {
				return err
			}
			return f.run(cmd, s, req)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "Dockerfile", "The Dockerfile; - for standard input.")
	cmd.Flags().StringVar(&dir, "context", "", "The `directory`, tar.gz file or http(s) URL of the files that the Dockerfile may COPY (default: none).")
	f.add(cmd, s)
	completeDir(cmd, "context")
	return cmd
}

func dockerfileRequest(cmd *cobra.Command, s *settings, file, dir string) (*containerv1.ContainerRequest, error) {
	text, err := encoded(cmd, file)
	if err != nil || dir == "" {
		return &containerv1.ContainerRequest{ContainerFile: text}, err
	}
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	var ignored *ignoreList
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		if ignored, err = readIgnored(file, dir); err != nil {
			return nil, err
		}
	}
	layer, err := c.layer(cmd.Context(), dir, ignored, cmd.ErrOrStderr())
	if err != nil {
		return nil, fmt.Errorf("preparing the context %s: %w", dir, err)
	}
	return &containerv1.ContainerRequest{ContainerFile: text, BuildContext: layer}, nil
}
