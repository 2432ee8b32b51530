package bundle

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// processName matches the names of processes that a selector of Nextflow can have.
var processName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_:]{0,999}$`)

// nextflowConfig returns a configuration of Nextflow in which the processes of a bundle have the
// names that images returns. plain states that the registry has no TLS.
func (c *content) nextflowConfig(nameOf map[string]string, plain bool) string {
	var processes, others strings.Builder
	seen := map[string]string{}
	for _, r := range c.records {
		for _, one := range r.Requests {
			to := nameOf[one.Image]
			if to == "" || !batch.IsImageText(to) {
				continue
			}
			if one.Process && processName.MatchString(one.Name) {
				seen[one.Name] = to
			} else {
				fmt.Fprintf(&others, "// %s: %s\n", comment(one.Name), to)
			}
		}
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
		out += "singularity.noHttps = true\napptainer.noHttps = true\npodman.runOptions = '--tls-verify=false'\n"
	}
	if processes.Len() > 0 {
		out += "process {\n" + processes.String() + "}\n"
	}
	if others.Len() > 0 {
		out += "// Containers of other inputs:\n" + others.String()
	}
	return out
}

// comment returns a text for a comment in Groovy. Versions of Groovy decode \u000a, the escape of a line
// feed, in comments too.
func comment(s string) string { return strings.ReplaceAll(output.Printable(s), `\`, "/") }

// writeConfig writes a configuration to a file, or to standard output for "-".
func writeConfig(cmd *cobra.Command, path, text string) error {
	if path == "-" {
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // it has no secrets
		return fmt.Errorf("writing the configuration of Nextflow: %w", err)
	}
	return nil
}
