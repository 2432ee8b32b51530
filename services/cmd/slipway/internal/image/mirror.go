package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// maxMirrors is the maximum number of images of one command.
const maxMirrors = 10_000

// mirrorFlags are the flags of `slipway mirror`.
type mirrorFlags struct {
	to        string
	workspace *string
	frozen    frozenFlags
	output    *output.Format
}

// Mirror returns `slipway mirror`.
func Mirror(s *session.Settings) *cobra.Command {
	var f mirrorFlags
	cmd := &cobra.Command{
		Use:   "mirror IMAGE...",
		Short: "Copy images to a repository of your own, with all platforms and signatures",
		Long: `Copy images to a repository of your own, with all platforms, signatures, SBOMs and
everything else that refers to them. All digests stay the same. The name of the copy
of quay.io/biocontainers/samtools:1.20 in registry.example.org/mirror is
registry.example.org/mirror/biocontainers/samtools:1.20.

The server copies the images from registry to registry, with your own credentials
(` + "`slipway credentials`" + `); nothing is sent through this machine. The names of the copies
are printed, in the order of the arguments. With - as the argument, images are
read from standard input, one per line.`,
		Example: `  slipway mirror quay.io/biocontainers/samtools:1.20--h50ea8bc_0 --to registry.example.org/mirror --await
  slipway mirror - --to registry.example.org/mirror < images.txt`,
		Args: usage.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "The `repository` to copy to; the path of each image is added to it.")
	flags.BoolVar(&f.frozen.await, "await", false, "Show the log of each mirror on standard error, and print the names when the copies exist.")
	f.frozen.addProgress(cmd)
	f.workspace = session.WorkspaceFlag(cmd, s, "whose registry credentials are used")
	f.output = output.Flag(cmd, []*containerv1.SubmitContainerResponse(nil))
	usage.CompleteFlag(cmd, "to")
	return cmd
}

func (f *mirrorFlags) run(cmd *cobra.Command, s *session.Settings, args []string) error {
	if f.to == "" {
		return usage.Errorf("--to is missing: the repository to copy to, e.g. --to registry.example.org/mirror")
	}
	if err := f.frozen.checkProgress(); err != nil {
		return err
	}
	images, err := imagesOf(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	c, err := s.Client()
	if err != nil {
		return err
	}
	workspace, err := c.Workspace(cmd.Context(), *f.workspace)
	if err != nil {
		return err
	}
	var raws [][]byte
	var started []*containerv1.SubmitContainerResponse
	var failed []error
	for i, image := range images {
		req := &containerv1.ContainerRequest{ContainerImage: image, Mirror: true, BuildRepository: f.to}
		if workspace != 0 {
			req.PlatformWorkspaceId = &workspace
		}
		raw, res, err := c.Submit(cmd.Context(), req)
		if err != nil {
			failed = append(failed, fmt.Errorf("mirroring %s: %w", image, err))
			if left := len(images) - i - 1; left > 0 && (cmd.Context().Err() != nil || isLimit(err)) {
				failed = append(failed, fmt.Errorf("%d more images were not requested, from %s on", left, images[i+1]))
				break
			}
			continue
		}
		raws, started = append(raws, raw), append(started, res)
	}
	table := output.Table{}
	for _, res := range started {
		if err := f.frozen.wait(cmd, s, c, res); err != nil {
			failed = append(failed, fmt.Errorf("mirroring to %s: %w", res.GetTargetImage(), err))
			if cmd.Context().Err() != nil {
				break
			}
			continue
		}
		table = append(table, []string{res.GetTargetImage()})
	}
	list := append(append([]byte("["), bytes.Join(raws, []byte(","))...), ']')
	return errors.Join(append([]error{f.output.Print(cmd.OutOrStdout(), list, table)}, failed...)...)
}

// isLimit reports whether the server rejected a request because a limit is used up.
func isLimit(err error) bool {
	no, ok := errors.AsType[*session.Refused](err)
	return ok && no.Status == http.StatusTooManyRequests
}

// imagesOf returns the images of a command: its arguments or, for -, the lines of in.
func imagesOf(args []string, in io.Reader) ([]string, error) {
	if len(args) != 1 || args[0] != "-" {
		return args, nil
	}
	var out []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
		if len(out) > maxMirrors {
			return nil, usage.Errorf("standard input has more than %d images", maxMirrors)
		}
	}
	if len(out) == 0 && lines.Err() == nil {
		return nil, usage.Errorf("standard input has no image")
	}
	return out, lines.Err()
}
