package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// condaFlags say what a Conda image is made of.
type condaFlags struct {
	file                            string
	channels, run                   []string
	baseImage, mambaImage, packages string
}

func condaCommand(s *settings) *cobra.Command {
	var f recipeFlags
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
build running. What was built before is not built again.`,
		Example: `  docker run --rm $(slipway conda samtools=1.20 --await) samtools --version
  slipway conda samtools=1.20 bwa -c conda-forge -c bioconda
  slipway conda --file environment.yml --freeze registry.example.org/team/tools --await
  slipway conda jq --base-image debian:12 --run 'RUN useradd worker' --run 'USER worker'`,
		Args: func(_ *cobra.Command, args []string) error { return conda.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := conda.request(cmd, args)
			if err != nil {
				return err
			}
			return f.run(cmd, s, req)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	conda.add(cmd)
	f.add(cmd, s)
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
	complete(cmd, "channel", "conda-forge", "bioconda")
	for _, name := range []string{"base-image", "mamba-image", "base-packages", "run"} {
		complete(cmd, name)
	}
}

func (f *condaFlags) check(args []string) error {
	switch {
	case len(args) == 0 && f.file == "":
		return usagef("nothing to install; name packages, or give --file")
	case len(args) > 0 && f.file != "":
		return usagef("give either packages or --file")
	}
	return nil
}

func (f *condaFlags) request(cmd *cobra.Command, args []string) (*containerv1.ContainerRequest, error) {
	packages := &containerv1.Packages{Type: "CONDA", Entries: args, Channels: f.channels}
	if f.file != "" {
		var err error
		if packages.Environment, err = encoded(cmd, f.file); err != nil {
			return nil, err
		}
	}
	opts := &containerv1.CondaOptions{MambaImage: f.mambaImage, BaseImage: f.baseImage, Commands: f.run}
	if cmd.Flags().Changed("base-packages") {
		opts.BasePackages = &f.packages
	}
	if proto.Size(opts) > 0 {
		packages.CondaOpts = opts
	}
	return &containerv1.ContainerRequest{Packages: packages}, nil
}
