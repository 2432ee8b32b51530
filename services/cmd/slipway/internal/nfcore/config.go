package nfcore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/services/cmd/slipway/internal/file"
)

// A configuration is a Nextflow configuration with the container of each process.
type configuration struct {
	name string // of the file, as nf-core names it
	text string
}

// configurations returns the configurations for both kinds of images, with the processes that have
// an image.
func configurations(all []row, architecture string) []configuration {
	var docker, singularity strings.Builder
	for _, r := range all {
		for to, image := range map[*strings.Builder]string{&docker: r.Docker, &singularity: r.Singularity} {
			if image != "" {
				fmt.Fprintf(to, "process { withName: '%s' { container = '%s' } }\n", r.Process, image)
			}
		}
	}
	return []configuration{
		{"containers_docker_" + architecture + ".config", docker.String()},
		{"containers_singularity_oras_" + architecture + ".config", singularity.String()},
	}
}

// isCurrent reports whether a file of a folder has the text of the configuration.
func (c configuration) isCurrent(folder string) (bool, error) {
	raw, err := os.ReadFile(filepath.Join(folder, c.name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return string(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))) == c.text, err
}

// write writes the configuration into a folder. After an error, an earlier file is unchanged.
func (c configuration) write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a folder of the pipeline, readable like its others
		return fmt.Errorf("creating the folder of the configurations: %w", err)
	}
	if err := file.Replace(filepath.Join(folder, c.name), []byte(c.text), 0o644); err != nil {
		return fmt.Errorf("writing a configuration: %w", err)
	}
	return nil
}
