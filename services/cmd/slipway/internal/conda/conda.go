// Package conda has the commands about Conda packages: to find them, to say which a request
// stands for, and to build an image of them. What fits is for the server to say.
package conda

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// condaFlags say what a Conda image is made of.
type condaFlags struct {
	file                            string
	channels, run                   []string
	baseImage, mambaImage, packages string
	refresh, compile                bool
}

// Command is `slipway conda`.
func Command(s *session.Settings) *cobra.Command {
	var f image.RecipeFlags
	var conda condaFlags
	cmd := &cobra.Command{
		Use:   "conda [PACKAGE...]",
		Short: "Build an image from Conda packages",
		Long: `Build an image from Conda packages, and get a name to pull it by.

A PACKAGE is a Conda specification, e.g. samtools=1.20 or conda-forge::jq, or
pip:NAME for one of PyPI; or one http(s) URL of an explicit lock file stands
alone. --file gives a Conda environment instead, or an explicit lock file.

The name alone is printed, at once: who pulls it waits for the build. With
--await the build's log is shown on standard error, and the name is printed when
the image is there; the exit code tells whether it is. Ctrl-C then leaves the
build running. What was built before is not built again.

A request is remembered: for some weeks it stands for the packages that it stood
for first. With --refresh it is solved anew, and remembered so.

With --dry-run nothing is built: the name is printed, and on standard error the
packages that would be in the image, with what would be downloaded.`,
		Example: `  docker run --rm $(slipway conda samtools=1.20 --await) samtools --version
  slipway conda samtools=1.20 bwa -c conda-forge -c bioconda
  slipway conda --file environment.yml --freeze registry.example.org/team/tools --await
  slipway pull $(slipway conda samtools=1.20 --sif) --sif samtools.sif
  slipway conda samtools=1.20 bwa --dry-run
  slipway conda jq --base-image debian:12 --run 'RUN useradd worker' --run 'USER worker'`,
		Args: func(_ *cobra.Command, args []string) error { return conda.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := conda.request(cmd, args)
			if err != nil {
				return err
			}
			if err := f.Run(cmd, s, req); err != nil || !f.DryRun || f.Output.IsDocument() {
				return err
			}
			return showPackages(cmd, s, req)
		},
		ValidArgsFunction: offersPackages(s),
	}
	conda.add(cmd)
	f.Add(cmd, s)
	return cmd
}

func (f *condaFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "An environment or explicit lock `file` instead of packages; - for standard input.")
	flags.StringArrayVarP(&f.channels, "channel", "c", nil, "A `channel` to take packages from; may be repeated, highest priority first (default: the server's, conda-forge and bioconda).")
	flags.StringVar(&f.baseImage, "base-image", "", "The `image` that the packages are put into.")
	flags.StringVar(&f.mambaImage, "mamba-image", "", "The `image` that installs the packages.")
	flags.StringVar(&f.packages, "base-packages", "", "The `packages` that every environment gets; empty for none (default: the server's, conda-forge::procps-ng).")
	flags.StringArrayVar(&f.run, "run", nil, "A Dockerfile `line` to append, e.g. 'RUN ldconfig'; may be repeated.")
	flags.BoolVar(&f.compile, "compile", false, "Compile Python's modules, so that they load at once; it is done in a step.")
	flags.BoolVar(&f.refresh, "refresh", false, "Solve the packages anew, though the request is remembered.")
	usage.Offer(cmd, "channel", "conda-forge", "bioconda")
	for _, name := range []string{"base-image", "mamba-image", "base-packages", "run"} {
		usage.Offer(cmd, name)
	}
}

func (f *condaFlags) check(args []string) error {
	switch {
	case len(args) == 0 && f.file == "":
		return usage.Errorf("nothing to install; name packages, or give --file")
	case len(args) > 0 && f.file != "":
		return usage.Errorf("give either packages or --file")
	}
	return condaSpecs(args)
}

func (f *condaFlags) request(cmd *cobra.Command, args []string) (*containerv1.ContainerRequest, error) {
	packages := &containerv1.Packages{Type: "CONDA", Entries: args, Channels: f.channels}
	if f.file != "" {
		var err error
		if packages.Environment, err = image.Encoded(cmd, f.file); err != nil {
			return nil, err
		}
	}
	opts := &containerv1.CondaOptions{MambaImage: f.mambaImage, BaseImage: f.baseImage, Commands: f.run, Compile: f.compile}
	if cmd.Flags().Changed("base-packages") {
		opts.BasePackages = &f.packages
	}
	if proto.Size(opts) > 0 {
		packages.CondaOpts = opts
	}
	return &containerv1.ContainerRequest{Packages: packages, Refresh: f.refresh}, nil
}

// showPackages shows which packages would be in an image. Where the server solves
// nothing, it shows nothing.
func showPackages(cmd *cobra.Command, s *session.Settings, req *containerv1.ContainerRequest) error {
	p := req.GetPackages()
	q := &condav1.LockQuery{
		Packages:            &condav1.CondaPackages{Type: p.GetType(), Entries: p.GetEntries(), Environment: p.GetEnvironment(), Channels: p.GetChannels()},
		PlatformWorkspaceId: req.PlatformWorkspaceId,
		ForContainer:        p.GetCondaOpts() == nil || p.GetCondaOpts().BasePackages == nil,
	}
	if req.GetContainerPlatform() != "" {
		q.Platforms = strings.Split(req.GetContainerPlatform(), ",")
	}
	var res condav1.LockPackagesResponse
	_, err := s.Do(cmd.Context(), lockCall(q), &res)
	no, ok := errors.AsType[*session.Refused](err)
	switch {
	case ok && (no.Status == http.StatusNotFound || no.Status == http.StatusNotImplemented):
		return nil
	case ok && no.Status != http.StatusUnprocessableEntity: // packages of pip, an address of a lock
		cmd.PrintErrln("slipway: the packages are not shown:", no)
		return nil
	case err != nil:
		return fmt.Errorf("solving: %w", withSuggestions(err, q))
	}
	var out bytes.Buffer
	lockTable(&res).Write(&out)
	if _, err := out.WriteTo(cmd.ErrOrStderr()); err != nil {
		return fmt.Errorf("printing the packages: %w", err)
	}
	return nil
}
