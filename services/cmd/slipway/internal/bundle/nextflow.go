package bundle

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// processName matches the names of processes that a selector of Nextflow can have.
var processName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_:]{0,999}$`)
})

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

// A container is what a process of Nextflow runs in, with names that have no scheme.
type container struct {
	image  string // "" for none
	digest digest.Digest
	sifs   map[digest.Digest]string // by the digests of the images that they were made of
	lone   string                   // the Singularity image of a process without an image
}

// nameFor returns the name to pull the container by; "" for none.
func (p *container) nameFor(e engine) string {
	sif := p.lone
	if p.image != "" {
		sif = p.sifs[p.digest]
	}
	if e.usesSif() && sif != "" {
		return orasScheme + sif
	}
	return p.image
}

// add adds a request of a process. The images of a record are added before its Singularity images. first states
// whether the record has no image of the process.
func (p *container) add(r request, name string, first bool) {
	switch {
	case r.Format != formatSif:
		p.image, p.digest, p.lone = name, r.Digest, ""
	case r.Of != "":
		p.sifs[r.Of] = name
	default:
		if p.lone = name; first {
			p.image = ""
		}
	}
}

// containers returns the containers of the processes of a bundle, and lines about the images of other inputs that an
// engine can run. nameOf returns the names of images.
func (c *content) containers(nameOf map[string]string, e engine) (processes map[string]*container, others string) {
	processes = map[string]*container{}
	var text strings.Builder
	for _, r := range c.records {
		has := map[string]bool{} // processes with an image
		for _, one := range slices.Concat(r.withFormat(""), r.withFormat(formatSif)) {
			to, isSif := nameOf[one.Image], one.Format == formatSif
			switch {
			case to == "" || !batch.IsImageText(to):
			case one.Process && processName().MatchString(one.Name):
				p := processes[one.Name]
				if p == nil {
					p = &container{sifs: map[digest.Digest]string{}}
					processes[one.Name] = p
				}
				p.add(one, to, !has[one.Name])
				has[one.Name] = has[one.Name] || !isSif
			case !isSif:
				fmt.Fprintf(&text, "// %s: %s\n", comment(one.Name), to)
			case e.usesSif():
				fmt.Fprintf(&text, "// %s: %s\n", comment(one.Name), orasScheme+to)
			}
		}
	}
	return processes, text.String()
}

// withFormat returns the requests with a format.
func (r record) withFormat(format string) []request {
	var out []request
	for _, one := range r.Requests {
		if (one.Format == formatSif) == (format == formatSif) {
			out = append(out, one)
		}
	}
	return out
}

// nextflowConfig returns a configuration of Nextflow in which the processes of a bundle have the
// names that nameOf returns. plain states that the registry has no TLS.
func (c *content) nextflowConfig(nameOf map[string]string, e engine, plain bool) string {
	var processes strings.Builder
	all, others := c.containers(nameOf, e)
	seen := map[string]string{}
	for process, p := range all {
		seen[process] = p.nameFor(e)
	}
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
	processes, _ := c.containers(nameOf, e)
	without, only := 0, 0
	for _, p := range processes {
		switch name := p.nameFor(e); {
		case name == "":
			only++
		case !strings.HasPrefix(name, orasScheme):
			without++
		}
	}
	if len(processes) == 0 {
		cmd.PrintErrln("Warning: the configuration has no process, so that Nextflow uses no image of the bundle. Make the bundle from the output of nextflow inspect -concretize -format json.")
	}
	if e.usesSif() && without > 0 {
		cmd.PrintErrln(fmt.Sprintf("Warning: %d of %d processes have no Singularity image; %s converts their images. slipway bundle --sif adds Singularity images.", without, len(processes), e))
	}
	if only > 0 {
		cmd.PrintErrln(fmt.Sprintf("Warning: %d of %d processes have only a Singularity image, and are not in the configuration; --engine singularity or apptainer writes them.", only, len(processes)))
	}
	text := []byte(c.nextflowConfig(nameOf, e, plain))
	if path == "-" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	if err := replaceOrWrite(path, text); err != nil {
		return fmt.Errorf("writing the configuration of Nextflow: %w", err)
	}
	return nil
}

// replaceOrWrite replaces a file, or writes to a pipe or a device.
func replaceOrWrite(path string, text []byte) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o644) //nolint:gosec // it exists
	}
	real, err := file.Resolve(path)
	if err != nil {
		return err
	}
	return file.Replace(real, text, 0o644)
}
