package snakemake

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// flags are the flags of the command.
type flags struct {
	batch.LockedFlags
	replace bool
}

// Command returns `slipway snakemake`.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "snakemake [SNAKEFILE...]",
		Short: "Write a container into each rule of a Snakemake workflow that has a Conda environment",
		Long: `Write a container into each rule of a Snakemake workflow that has a Conda environment.

The Snakefile of the current folder and all that it includes are read. For each rule
with conda: "FILE", the image of the environment file is requested and, when it exists,
its name is written below as container: "docker://NAME". After that, the workflow runs
with containers (snakemake --sdm apptainer) or with Conda (--sdm conda), as before.

The images are pushed to the repository of --freeze with your own credentials, because
names in a workflow must not expire. slipway.lock records the images and the locks of
their packages. Environments that have not changed since keep their images, which are
not requested again, unless --update is given.

A container that is in another repository is left alone, unless --replace is given.
Environments and includes that are expressions cannot be read: they are listed, and
the exit code is 1.

--check changes nothing and needs no server: the exit code is 1 if a rule lacks the
image that slipway.lock records for its environment, or the environment has changed
since. Containers in other repositories are not checked. Use it before commits and in
continuous integration, with the same options.`,
		Example: `  slipway snakemake --freeze registry.example.org/lab/rnaseq
  slipway snakemake --freeze registry.example.org/lab/rnaseq --check
  slipway snakemake workflow/Snakefile workflow/rules/extra.smk --freeze registry.example.org/lab/rnaseq`,
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error { return f.run(cmd, s, c, args) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		},
	}
	f.Add(cmd, s)
	cmd.Flags().BoolVar(&f.replace, "replace", false, "Replace containers of other repositories, too.")
	return cmd
}

func (f *flags) run(cmd *cobra.Command, s *session.Settings, c *session.Client, paths []string) error {
	repository, err := f.Repository(cmd)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		path, err := findSnakefile()
		if err != nil {
			return err
		}
		paths = []string{path}
	}
	files, problems, err := readWorkflow(paths)
	if err != nil {
		return err
	}
	todo := rows(files, repository, f.replace)
	if len(todo) == 0 && len(problems) == 0 {
		return errors.New("no rule has a Conda environment")
	}
	images, err := f.Images(cmd, s, c, environments(todo))
	if err != nil {
		return err
	}
	for _, one := range todo {
		if one.environment != "" {
			one.take(images[filepath.ToSlash(one.environment)], f.Check)
		}
	}
	if !f.Check {
		write(files, todo)
	} else if has(todo, statusKept) && !has(todo, statusCurrent) {
		problems = append(problems, "no container is in "+repository+": give the --freeze with which the containers were written")
	}
	f.printNotes(cmd, images)
	err = f.print(cmd, todo, problems)
	failed := len(problems)
	for _, one := range todo {
		if one.err != nil {
			failed++
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d rules and includes have no current container", failed, len(todo)+len(problems)))
	}
	return err
}

// environments returns the environment files of all rules.
func environments(all []*row) (out []string) {
	for _, one := range all {
		if one.environment != "" && !slices.Contains(out, one.environment) {
			out = append(out, one.environment)
		}
	}
	return out
}

// printNotes prints what users should know about images to standard error.
func (f *flags) printNotes(cmd *cobra.Command, images map[string]batch.Image) {
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if note := images[name].Note; note != "" && !f.Output.IsDocument() {
			cmd.PrintErrln(output.Printable(name + ": " + note))
		}
	}
}
