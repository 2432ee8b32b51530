package image

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// frozenFlags are the flags of a permanent image: its repository, its format, and whether
// to wait for it.
type frozenFlags struct {
	freeze     string
	soci       bool
	prefetch   string // a file with paths, or "-"
	keep       string // "", "public" or "organization"
	sif, await bool
	progress   string // "auto", "plain" or "tty"
}

func (f *frozenFlags) add(cmd *cobra.Command) {
	f.addFreeze(cmd)
	f.addWait(cmd)
	f.addProgress(cmd)
}

func (f *frozenFlags) addFreeze(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.freeze, "freeze", "", "Push the image permanently to this `repository`, with your own credentials, and print its name there.")
	usage.CompleteFlag(cmd, "freeze")
	cmd.Flags().StringVar(&f.keep, "keep", "", "Give an image of Conda packages a name that does not expire: `public`, so that everyone can see its packages; or --keep=organization, for the members of the organisation of --workspace.")
	cmd.Flags().Lookup("keep").NoOptDefVal = "public"
	usage.CompleteFlag(cmd, "keep", "public", "organization")
	cmd.Flags().BoolVar(&f.soci, "soci", false, "Add a SOCI index to an image that is built or frozen, so that engines with the SOCI snapshotter start it before it is downloaded.")
	cmd.Flags().StringVar(&f.prefetch, "soci-prefetch", "", "A `file` with the paths of the files that are fetched first, one on each line, e.g. of slipway cache firsts; - for standard input. Only with --soci.")
}

// addWait adds the flags of the format, and of the wait for the image.
func (f *frozenFlags) addWait(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.sif, "sif", false, "Make a Singularity image of it; its name is for oras://, and slipway pull --sif saves the file.")
	flags.BoolVar(&f.await, "await", false, "Show the build's log on standard error, and print the name when the image exists.")
}

func (f *frozenFlags) addProgress(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.progress, "progress", "auto", "How --await shows the build: plain, only lines; tty, with a status line at the end; auto, depending on the terminal.")
	usage.CompleteFlag(cmd, "progress", "auto", "plain", "tty")
}

func (f *frozenFlags) checkProgress() error {
	if f.progress != "auto" && f.progress != "plain" && f.progress != "tty" {
		return usage.Errorf("--progress must be auto, plain or tty, not %q", f.progress)
	}
	return nil
}

// target adds the target repository to a request.
func (f *frozenFlags) target(cmd *cobra.Command, req *containerv1.ContainerRequest) error {
	if err := f.checkProgress(); err != nil {
		return err
	}
	if f.freeze != "" {
		req.BuildRepository, req.Freeze = f.freeze, true
	}
	if f.sif && f.soci {
		return usage.Errorf("--sif and --soci exclude each other: a Singularity image is one file")
	}
	if f.keep != "" && f.keep != "public" && f.keep != "organization" {
		return usage.Errorf("--keep must be public or organization, not %q", f.keep)
	}
	if f.keep != "" && f.freeze != "" {
		return usage.Errorf("--keep and --freeze exclude each other: the server stores kept images in its own repository")
	}
	if req.Keep = f.keep != ""; f.keep == "organization" {
		req.KeepScope = f.keep
	}
	if req.Soci = f.soci; f.sif {
		req.Format = "sif"
	}
	if f.prefetch == "" {
		return nil
	}
	if !f.soci {
		return usage.Errorf("--soci-prefetch is only for --soci")
	}
	text, err := contents(cmd, f.prefetch)
	req.SociPrefetch = pathsOf(text)
	return err
}

// pathsOf returns the lines of a list of files.
func pathsOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// wait follows the build of a request until its image exists, if --await is set.
func (f *frozenFlags) wait(cmd *cobra.Command, s *session.Settings, c *session.Client, res *containerv1.SubmitContainerResponse) error {
	if !f.await {
		return nil
	}
	live := f.progress == "tty" || f.progress == "auto" && s.IsLive(cmd.ErrOrStderr())
	show := follow.NewConsole(cmd.ErrOrStderr(), live, true)
	if !res.GetSucceeded() {
		if err := follow.Await(cmd.Context(), c, res, show); err != nil {
			return err
		}
	}
	return printDigest(cmd, c, res)
}

// printDigest prints the image's digest and download size, if known.
func printDigest(cmd *cobra.Command, c *session.Client, res *containerv1.SubmitContainerResponse) error {
	if res.GetBuildId() == "" {
		return nil
	}
	var b buildv1.Build
	if _, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: subject{build: res.GetBuildId()}.path()}, &b); err != nil || b.GetDigest() == "" {
		return session.UnlessRefused(err)
	}
	line := "Made " + b.GetDigest()
	image := &inspectv1.ImageQuery{ContainerImage: res.GetTargetImage()}
	var made inspectv1.InspectImageResponse
	if !strings.HasPrefix(res.GetTargetImage(), orasScheme) {
		if _, err := c.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/v1alpha1/inspect", Signed: true, Body: image}, &made); session.UnlessRefused(err) != nil {
			return err
		}
	}
	if layers := made.GetContainer().GetManifest().GetLayers(); len(layers) > 0 {
		size := 0.0
		for _, l := range layers {
			size += l.GetSize()
		}
		line += fmt.Sprintf(", %s in %s", output.BytesText(size), output.Count(len(layers), "layer"))
	}
	cmd.PrintErrln(output.Printable(line))
	return nil
}
