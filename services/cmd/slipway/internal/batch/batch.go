// Package batch implements `slipway batch`, which requests many containers at once: it reads the
// inputs (parse.go, files.go), submits their requests, waits for the builds, and records the
// images and the locks of their packages in a lock file (lock.go), from which a later run requests
// the same images.
package batch

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/conda"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// flags are the flags of the command.
type flags struct {
	image.RecipeFlags
	conda  conda.Flags
	lock   string // the path of the lock file; "" for none
	update bool
}

// Command returns `slipway batch`.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "batch INPUT...",
		Short: "Request many containers at once",
		Long: `Request many containers at once, and get a table of their names.

An INPUT is a file, a folder, or - for standard input. What it is follows from
its content:
  - a Conda environment file, a pixi.toml, or a lock: one container;
  - a list of such files, one path per line;
  - container requests as lines of JSON, with the fields of the REST API;
  - the output of nextflow inspect -format json: a container for each process;
  - the output of snakemake --list-conda-envs: a container for each environment;
  - a folder of nf-core modules: a container for each environment.yml in it.

The options apply to each request that does not set them itself; those about
packages apply to requests for packages only. Equal requests are one, and
packages that several requests share are solved once. A request that fails does
not affect the others. The table is printed at the end; the exit code is 1 if a
request or, with --await, a build failed. Up to 10000 containers are requested.

slipway.lock records the images and the locks of their packages. If it exists,
the same inputs get the same packages and images from it, at any server; an
existing image that differs is a failure. Packages of PyPI and CRAN, variables,
and packages of private channels cannot be locked. New and changed inputs are
added to it, and records of inputs that are not given stay. It can record both the
image and, with --sif, the Singularity image of an input. --update requests
all given inputs again. With --await the file is complete, because the digest
of an image and, for some, the lock of its packages are only known after its
build.`,
		Example: `  slipway batch envs/*.yml --await
  nextflow inspect -format json . | slipway batch - --freeze registry.example.org/team/images --await
  snakemake --list-conda-envs | slipway batch -
  slipway batch modules/nf-core --platform linux/arm64 -o json
  slipway batch requests.jsonl --lock ''`,
		Args: usage.AtLeast(1),
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error { return f.run(cmd, s, c, args) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		},
	}
	f.Add(cmd, s)
	f.Output.Of(map[string]any{"results": []row{}})
	f.addLock(cmd)
	cmd.Flags().Lookup("lock").Usage = "The lock `file`; empty for none."
	cmd.Flags().Lookup("await").Usage = "Wait until all images exist; the exit code then reports whether all builds succeeded."
	return cmd
}

// addLock adds the flags of packages and of the lock file.
func (f *flags) addLock(cmd *cobra.Command) {
	f.conda.AddOptions(cmd)
	cmd.Flags().StringVar(&f.lock, "lock", "slipway.lock", "The lock `file`.")
	cmd.Flags().BoolVar(&f.update, "update", false, "Request all inputs again instead of what the lock file records, and replace it.")
	cmd.Flags().Lookup("progress").Usage = "How progress is shown: plain, one line at the end; tty, on a line that is replaced; auto, depending on the terminal."
}

func (f *flags) run(cmd *cobra.Command, s *session.Settings, c *session.Client, inputs []string) error {
	if f.DryRun && f.lock != "" && cmd.Flags().Changed("lock") {
		return usage.Errorf("--dry-run builds nothing that --lock could record")
	}
	if f.DryRun {
		f.lock = ""
	}
	entries, err := read(cmd, inputs)
	if err != nil {
		return err
	}
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return err
	}
	old, err := readLock(f.lock)
	if err != nil {
		return err
	}
	used := old
	if f.update {
		used = lockFile{}
	}
	if f.lock != "" {
		if err := checkWritable(f.lock); err != nil {
			return err
		}
	}
	r := newRun(c, newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(entries)))
	r.request(cmd.Context(), entries, defaults, used)
	look := r.describe
	if f.lock == "" {
		look = nil
	}
	r.finish(cmd.Context(), f.Awaits(), look)
	err = errors.Join(r.progress.end(), r.print(cmd, f.Output, f.DryRun)) // the names are not lost if the lock file cannot be written
	if now := r.lock(old); f.lock != "" && len(now.Containers) > 0 {
		err = errors.Join(err, now.write(f.lock))
	}
	failed, building := r.incomplete()
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d containers failed", failed, len(entries)))
	}
	if building > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d containers are still built; the same command continues", building, len(entries)))
	}
	return err
}

// defaults returns a request with the fields that the flags set.
func (f *flags) defaults(cmd *cobra.Command, s *session.Settings, c *session.Client) (*containerv1.ContainerRequest, error) {
	out, err := f.Defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	fillIn(out, f.conda.Options(cmd))
	return out, nil
}
