package nfcore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// flags are the flags of the command.
type flags struct {
	batch.LockedFlags
	configs string
}

// Command returns `slipway nf-core`.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "nf-core [FOLDER...]",
		Short: "Get containers for Docker and Singularity for nf-core modules, as a table and as Nextflow configurations",
		Long: `Get containers for Docker and Singularity for nf-core modules, as a table and as Nextflow configurations.

Each folder with a main.nf and an environment.yml is a module; FOLDER is "modules" by
default. For each process, an image and a Singularity image with the same packages are
requested, and their names are printed when both exist.

With --configs, the names are written into two files in the format of nf-core pipelines:
containers_docker_amd64.config and containers_singularity_oras_amd64.config, or with the
architecture of --platform. Include them in the configuration of the pipeline.

The images are pushed to the repository of --freeze with your own credentials, because
names in a pipeline must not expire. slipway.lock records the images and the locks of
their packages. Environments that have not changed since keep their images, which are
not requested again, unless --update is given.

--check needs no server: the exit code is 1 if slipway.lock lacks the image of an
environment as it is now, or a file of --configs would change.`,
		Example: `  slipway nf-core --freeze registry.example.org/lab/modules --configs conf
  slipway nf-core modules/nf-core modules/local --freeze registry.example.org/lab/modules -o json
  slipway nf-core --freeze registry.example.org/lab/modules --configs conf --check`,
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error { return f.run(cmd, s, c, args) }),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f.Add(cmd, s)
	f.Output.Of(map[string]any{"modules": []row{}, "problems": []string{}})
	cmd.Flags().StringVar(&f.configs, "configs", "", "The `folder` to write Nextflow configurations into.")
	_ = cmd.MarkFlagDirname("configs") // fails for unknown flags only
	return cmd
}

// A row is a process with its images.
type row struct {
	Process string `json:"process"`
	// Docker and Singularity are "" if the image does not exist.
	Docker      string `json:"docker,omitempty"`
	Singularity string `json:"singularity,omitempty"`
	Environment string `json:"environment"`
	Message     string `json:"message,omitempty"`
}

func (f *flags) run(cmd *cobra.Command, s *session.Settings, c *session.Client, roots []string) error {
	if _, err := f.Repository(cmd); err != nil {
		return err
	}
	architecture, err := architectureOf(cmd)
	if err != nil {
		return err
	}
	if len(roots) == 0 {
		roots = []string{"modules"}
	}
	modules, problems, err := findModules(roots)
	if err != nil {
		return err
	}
	var files []string
	for _, m := range modules {
		files = append(files, filepath.FromSlash(m.environment))
	}
	images, err := f.Images(cmd, s, c, files)
	if err != nil {
		return err
	}
	sifs, err := f.Sifs(cmd, s, c, images)
	if err != nil {
		return err
	}
	rows := make([]row, 0, len(modules))
	for _, m := range modules {
		one := row{Process: m.process, Environment: m.environment, Docker: images[m.environment].Target, Singularity: sifs[m.environment].Target}
		if err := cmp.Or(images[m.environment].Err, sifs[m.environment].Err); err != nil {
			one.Message = err.Error()
			problems = append(problems, m.environment+": "+one.Message)
		}
		rows = append(rows, one)
	}
	failed := len(problems)
	for _, m := range modules {
		for _, image := range []batch.Image{images[m.environment], sifs[m.environment]} {
			if image.Note != "" && !f.Output.IsDocument() {
				cmd.PrintErrln(output.Printable(image.Name + ": " + image.Note))
			}
		}
	}
	if f.configs != "" {
		more, err := f.writeAll(configurations(rows, architecture), failed > 0)
		if err != nil {
			return errors.Join(f.print(cmd, rows, problems), err)
		}
		problems = append(problems, more...)
	}
	err = f.print(cmd, rows, problems)
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d modules cannot be read, or have no current containers", failed))
	}
	if len(problems) > failed {
		err = errors.Join(err, errors.New("configurations were not written"))
	}
	return err
}

// writeAll writes the configurations, unless a module failed: a pipeline without the container of one
// process would fail later. It returns why configurations were not written.
func (f *flags) writeAll(all []configuration, failed bool) (problems []string, err error) {
	for _, c := range all {
		path := filepath.ToSlash(filepath.Join(f.configs, c.name))
		current, err := c.isCurrent(f.configs)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading a configuration: %w", err)
		case current:
		case f.Check:
			problems = append(problems, path+" is not current: run the command without --check")
		case failed:
			problems = append(problems, path+" is not written, because it would lack containers")
		default:
			if err := c.write(f.configs); err != nil {
				return nil, err
			}
		}
	}
	return problems, nil
}

// architectureOf returns the architecture of --platform.
func architectureOf(cmd *cobra.Command) (string, error) {
	platform, err := cmd.Flags().GetString("platform")
	if err != nil || platform == "" {
		return "amd64", err
	}
	if strings.Contains(platform, ",") {
		return "", usage.Errorf("a configuration is for one platform: give one to --platform, and run the command for each")
	}
	_, architecture, ok := strings.Cut(platform, "/")
	if !ok {
		architecture = platform
	}
	architecture, _, _ = strings.Cut(architecture, "/") // arm64/v8
	return architecture, nil
}

// print prints the table, and problems to standard error.
func (f *flags) print(cmd *cobra.Command, rows []row, problems []string) error {
	table := output.Table{{"DOCKER", "SINGULARITY", "PROCESS"}}
	for _, r := range rows {
		table = append(table, []string{cmp.Or(r.Docker, "-"), cmp.Or(r.Singularity, "-"), r.Process})
	}
	text, err := json.Marshal(map[string]any{"modules": rows, "problems": append([]string{}, problems...)})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if !f.Output.IsDocument() {
		for _, p := range problems {
			cmd.PrintErrln(output.PrintableLines(p))
		}
	}
	return f.Output.Print(cmd.OutOrStdout(), text, table)
}
