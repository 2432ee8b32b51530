// Package conda implements the commands for Conda packages: search, lock, explain, and
// building an image. The server solves.
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

// Flags are the flags of a Conda image.
type Flags struct {
	file, environment               string
	channels, run                   []string
	baseImage, mambaImage, packages string
	asOf, minAge                    string
	exceptions                      []string
	refresh, compile                bool
}

// Command returns `slipway conda`.
func Command(s *session.Settings) *cobra.Command {
	var f image.RecipeFlags
	var conda Flags
	format := ""
	cmd := &cobra.Command{
		Use:   "conda [PACKAGE...]",
		Short: "Build an image from Conda packages",
		Long: `Build an image from Conda packages, and get a name to pull it by.

A PACKAGE is a Conda specification, e.g. samtools=1.20 or conda-forge::jq, or
pip:NAME for one of PyPI. Instead of packages, the only argument can be an
http(s) URL of a lock file. --file gives a Conda environment or a pixi.toml
instead, or a lock: a list of addresses (@EXPLICIT), a conda-lock.yml or a
pixi.lock. --environment chooses one of the environments of a pixi.toml or a
lock. A lock is used as it is: its packages, and no other, on every server.

Only the name is printed, immediately; a pull waits for the build. With --await
the build's log is shown on standard error, and the name is printed when the
image exists; the exit code reports success. Ctrl-C then leaves the build
running. An image that was built before is not built again.

A solution is cached: for some weeks the same request resolves to the same
packages. With --refresh it is solved again, and the new solution is cached.

With --format environment, no image is made: the name is that of an environment for
` + "`slipway run`" + `, which mounts it. That takes the server less time than an image.

With --dry-run nothing is built: the name is printed, and on standard error the
packages that would be in the image, with what would be downloaded.`,
		Example: `  docker run --rm $(slipway conda samtools=1.20 --await) samtools --version
  slipway conda samtools=1.20 bwa -c conda-forge -c bioconda
  slipway conda --file pixi.lock --environment test
  slipway conda --file environment.yml --freeze registry.example.org/team/tools --await
  slipway pull $(slipway conda samtools=1.20 --sif) --sif samtools.sif
  slipway run $(slipway conda samtools=1.20 --format environment --await) -- samtools --version
  slipway conda samtools=1.20 bwa --dry-run
  slipway conda jq --base-image debian:12 --run 'RUN useradd worker' --run 'USER worker'`,
		Args: func(_ *cobra.Command, args []string) error { return conda.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := conda.request(cmd, args)
			if err != nil {
				return err
			}
			if err := f.SetFormat(req, format); err != nil {
				return err
			}
			if err := f.Run(cmd, s, req); err != nil || !f.DryRun || f.Output.IsDocument() {
				return err
			}
			return showPackages(cmd, s, req)
		},
		ValidArgsFunction: completePackages(s),
	}
	conda.add(cmd)
	f.Add(cmd, s)
	cmd.Flags().StringVar(&format, "format", "", "What is made: oci, an image; sif, a Singularity image, as with --sif; or environment, which only slipway run uses (default: oci).")
	usage.CompleteFlag(cmd, "format", "oci", "sif", "environment")
	return cmd
}

func (f *Flags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "An environment or lock `file` instead of packages; - for standard input.")
	f.AddOptions(cmd)
}

// AddOptions adds the flags other than those for the packages themselves.
func (f *Flags) AddOptions(cmd *cobra.Command) {
	flags := cmd.Flags()
	addEnvironment(cmd, &f.environment)
	flags.StringArrayVarP(&f.channels, "channel", "c", nil, "A `channel` to take packages from; may be repeated, highest priority first (default: the server's, conda-forge and bioconda).")
	flags.StringVar(&f.baseImage, "base-image", "", "The `image` that the packages are put into.")
	flags.StringVar(&f.mambaImage, "mamba-image", "", "The `image` that installs the packages.")
	flags.StringVar(&f.packages, "base-packages", "", "The `packages` that every environment gets; empty for none (default: the server's, conda-forge::procps-ng).")
	flags.StringArrayVar(&f.run, "run", nil, "A Dockerfile `line` to append, e.g. 'RUN ldconfig'; may be repeated.")
	flags.BoolVar(&f.compile, "compile", false, "Compile Python modules in an extra step, so that they load faster.")
	flags.BoolVar(&f.refresh, "refresh", false, "Solve the packages again instead of using the cached solution. The channels are checked for changed package lists, unless that was done in the last minute.")
	addAges(cmd, &f.asOf, &f.minAge, &f.exceptions)
	usage.CompleteFlag(cmd, "channel", "conda-forge", "bioconda")
	for _, name := range []string{"base-image", "mamba-image", "base-packages", "run"} {
		usage.CompleteFlag(cmd, name)
	}
}

func (f *Flags) check(args []string) error {
	switch {
	case len(args) == 0 && f.file == "":
		return usage.Errorf("nothing to install; name packages, or give --file")
	case len(args) > 0 && f.file != "":
		return usage.Errorf("give either packages or --file")
	}
	return condaSpecs(args)
}

// addAges adds the flags about the age of packages.
func addAges(cmd *cobra.Command, asOf, minAge *string, exceptions *[]string) {
	flags := cmd.Flags()
	flags.StringVar(asOf, "as-of", "", "Use the channels as they were on this `date` or at this time, e.g. 2026-03-01.")
	flags.StringVar(minAge, "min-age", "", "Ignore packages that are newer than this `age`, e.g. 7d.")
	flags.StringSliceVar(exceptions, "min-age-except", nil, "The `names` of packages to which --min-age does not apply, e.g. openssl; several with commas.")
	usage.CompleteFlag(cmd, "as-of")
	usage.CompleteFlag(cmd, "min-age-except")
	usage.CompleteFlag(cmd, "min-age", "7d", "14d", "30d")
}

// addEnvironment adds the flag that selects one of a lock's environments.
func addEnvironment(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "environment", "", "The `name` of the environment of a pixi.lock or pixi.toml, or of the category of a conda-lock.yml beside main (default: default).")
	usage.CompleteFlag(cmd, "environment")
}

func (f *Flags) request(cmd *cobra.Command, args []string) (*containerv1.ContainerRequest, error) {
	req := f.Options(cmd)
	req.Packages.Type, req.Packages.Entries = "CONDA", args
	if f.file != "" {
		var err error
		if req.Packages.Environment, err = image.Encoded(cmd, f.file); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// Options returns a request with the fields that the flags of AddOptions set.
func (f *Flags) Options(cmd *cobra.Command) *containerv1.ContainerRequest {
	packages := &containerv1.Packages{Channels: f.channels, EnvironmentName: f.environment}
	opts := &containerv1.CondaOptions{MambaImage: f.mambaImage, BaseImage: f.baseImage, Commands: f.run, Compile: f.compile}
	if cmd.Flags().Changed("base-packages") {
		opts.BasePackages = &f.packages
	}
	if proto.Size(opts) > 0 {
		packages.CondaOpts = opts
	}
	return &containerv1.ContainerRequest{Packages: packages, Refresh: f.refresh, AsOf: f.asOf, MinAge: f.minAge, MinAgeExcept: f.exceptions}
}

// showPackages shows the packages of the image. It shows nothing if the server does not
// solve the request.
func showPackages(cmd *cobra.Command, s *session.Settings, req *containerv1.ContainerRequest) error {
	p := req.GetPackages()
	q := &condav1.LockQuery{
		Packages:            &condav1.CondaPackages{Type: p.GetType(), Entries: p.GetEntries(), Environment: p.GetEnvironment(), Channels: p.GetChannels(), EnvironmentName: p.GetEnvironmentName()},
		PlatformWorkspaceId: req.PlatformWorkspaceId,
		ForContainer:        p.GetCondaOpts() == nil || p.GetCondaOpts().BasePackages == nil,
		AsOf:                req.GetAsOf(), MinAge: req.GetMinAge(), MinAgeExcept: req.GetMinAgeExcept(),
	}
	if req.GetContainerPlatform() != "" {
		q.Platforms = strings.Split(req.GetContainerPlatform(), ",")
	}
	c, err := s.Client()
	if err != nil {
		return fmt.Errorf("solving: %w", err)
	}
	_, res, err := c.Lock(cmd.Context(), q)
	no, ok := errors.AsType[*session.Refused](err)
	switch {
	case ok && (no.Status == http.StatusNotFound || no.Status == http.StatusNotImplemented):
		return nil
	case ok && no.Status != http.StatusUnprocessableEntity: // pip packages, or the URL of a lock
		cmd.PrintErrln("slipway: the packages are not shown:", no)
		return nil
	case err != nil:
		return fmt.Errorf("solving: %w", withSuggestions(err, q))
	}
	var out bytes.Buffer
	lockTable(res).Write(&out)
	if _, err := out.WriteTo(cmd.ErrOrStderr()); err != nil {
		return fmt.Errorf("printing the packages: %w", err)
	}
	return nil
}
