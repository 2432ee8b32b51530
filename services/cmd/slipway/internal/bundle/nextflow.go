package bundle

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// processName matches the names of processes that a selector of Nextflow can have.
var processName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_:]{0,999}$`)

// An engine is the program that runs the containers of a configuration of Nextflow.
type engine string

// engines returns the values of --engine.
func engines() []string { return []string{"docker", "podman", "singularity", "apptainer"} }

// add adds the flag --engine.
func (e *engine) add(cmd *cobra.Command) {
	cmd.Flags().StringVar((*string)(e), "engine", "", "The `program` that --nextflow-config is for: docker, podman, singularity or apptainer (default: docker).")
	usage.CompleteFlag(cmd, "engine", engines()...)
}

// check checks the value of the flag. config is that of --nextflow-config.
func (e engine) check(config string) error {
	switch {
	case e != "" && !slices.Contains(engines(), string(e)):
		return usage.Errorf("--engine must be one of %s, not %q", strings.Join(engines(), ", "), string(e))
	case e != "" && config == "":
		return usage.Errorf("--engine is the program that a configuration of Nextflow is for; give --nextflow-config, too")
	}
	return nil
}

// usesSif reports whether the engine runs Singularity images.
func (e engine) usesSif() bool { return e == "singularity" || e == "apptainer" }

// names returns the names to pull the images of a bundle by for an engine. nameOf returns the names without oras://.
func (c *content) names(nameOf map[string]string, e engine) (processes map[string]string, others string) {
	processes = map[string]string{}
	var text strings.Builder
	for _, isSif := range []bool{false, true} {
		for _, r := range c.records {
			for _, one := range r.Requests {
				to := nameOf[one.Image]
				if to == "" || !batch.IsImageText(to) || isSif != (one.Format == formatSif) {
					continue
				}
				if isSif {
					to = orasScheme + to
				}
				switch {
				case isSif && !e.usesSif():
				case one.Process && processName.MatchString(one.Name):
					processes[one.Name] = to // if there are both images, Singularity does not have to convert one
				default:
					fmt.Fprintf(&text, "// %s: %s\n", comment(one.Name), to)
				}
			}
		}
	}
	return processes, text.String()
}

// nextflowConfig returns a configuration of Nextflow in which the processes of a bundle have the
// names that nameOf returns. plain states that the registry has no TLS.
func (c *content) nextflowConfig(nameOf map[string]string, e engine, plain bool) string {
	var processes strings.Builder
	seen, others := c.names(nameOf, e)
	for _, r := range c.records {
		for _, one := range r.Requests {
			if to := seen[one.Name]; to != "" && one.Process {
				fmt.Fprintf(&processes, "    withName: '%s' { container = '%s' }\n", one.Name, to)
				delete(seen, one.Name)
			}
		}
	}
	out := "// Written by slipway bundle. Use it with: nextflow run -c THIS_FILE -offline\nwave.enabled = false\n"
	if plain {
		// Nextflow's apptainer.noHttps is an option that Apptainer 1.5 has no longer. It uses plain HTTP for the same machine.
		out += "singularity.noHttps = true\npodman.runOptions = '--tls-verify=false'\n// Apptainer on other machines needs the variable APPTAINER_NOHTTPS=true.\n"
	}
	if processes.Len() > 0 {
		out += "process {\n" + processes.String() + "}\n"
	}
	if others != "" {
		out += "// Containers of other inputs:\n" + others
	}
	return out
}

// comment returns a text for a comment in Groovy. Versions of Groovy decode \u000a, the escape of a line
// feed, in comments too.
func comment(s string) string { return strings.ReplaceAll(output.Printable(s), `\`, "/") }

// writeConfig writes a configuration to a file, or to standard output for "-". It warns of a configuration that
// would not have the expected effect.
func (c *content) writeConfig(cmd *cobra.Command, path string, nameOf map[string]string, e engine, plain bool) error {
	processes, _ := c.names(nameOf, e)
	if len(processes) == 0 {
		cmd.PrintErrln("Warning: the configuration has no process, so that Nextflow uses no image of the bundle. Make the bundle from the output of nextflow inspect -concretize -format json.")
	}
	if n := withoutSif(processes); e.usesSif() && n > 0 {
		cmd.PrintErrln(fmt.Sprintf("Warning: %d of %d processes have no Singularity image; %s converts their images. slipway bundle --sif adds Singularity images.", n, len(processes), e))
	}
	text := c.nextflowConfig(nameOf, e, plain)
	if path == "-" {
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // it has no secrets
		return fmt.Errorf("writing the configuration of Nextflow: %w", err)
	}
	return nil
}

// withoutSif returns how many processes have images that are not Singularity images.
func withoutSif(processes map[string]string) (n int) {
	for _, image := range processes {
		if !strings.HasPrefix(image, orasScheme) {
			n++
		}
	}
	return n
}
