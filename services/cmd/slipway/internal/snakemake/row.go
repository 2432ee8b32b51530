package snakemake

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/file"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// The status of a rule: its container was written, was current before, or is in another
// repository; or the rule has no current container.
const (
	statusWritten = "written"
	statusCurrent = "current"
	statusKept    = "kept"
	statusFailed  = "failed"
)

// A row is a rule with its result.
type row struct {
	file *snakefile
	rule *rule
	// environment is the path of its environment file; "" if its container is not requested.
	environment string
	image       string
	status      string
	err         error // why the status is failed
}

// rows returns the rules of a workflow. A rule whose container is of another repository is kept,
// unless replaces is set.
func rows(files []*snakefile, repository string, replaces bool) []*row {
	var out []*row
	for _, f := range files {
		for _, r := range f.rules {
			one := &row{file: f, rule: r, image: r.image()}
			out = append(out, one)
			if r.container != nil && !replaces && !batch.IsIn(one.image, repository) {
				one.status = statusKept
				continue
			}
			if one.environment, one.err = f.environment(r); one.err != nil {
				one.status = statusFailed
			}
		}
	}
	return out
}

// errOtherContainer is the error of a rule that lacks the recorded image.
var errOtherContainer = errors.New("its container is not the recorded image of its environment: run the command without --check")

// take takes the image of the rule's environment.
func (r *row) take(image batch.Image, check bool) {
	switch {
	case image.Err != nil:
		r.status, r.err = statusFailed, image.Err
	case r.image == image.Target:
		r.status = statusCurrent
	case check:
		r.status, r.err = statusFailed, errOtherContainer
	default:
		r.status, r.image = statusWritten, image.Target
	}
}

func has(all []*row, status string) bool {
	return slices.ContainsFunc(all, func(one *row) bool { return one.status == status })
}

// write writes the Snakefiles whose rules get another container. If that fails, the rules of the file
// fail.
func write(files []*snakefile, all []*row) {
	for _, f := range files {
		var changes []change
		var changed []*row
		for _, one := range all {
			if one.file == f && one.status == statusWritten {
				changes, changed = append(changes, change{one.rule, one.image}), append(changed, one)
			}
		}
		if len(changes) == 0 {
			continue
		}
		if err := f.write(changes); err != nil {
			for _, one := range changed {
				one.status, one.err = statusFailed, fmt.Errorf("writing %s: %w", f.path, err)
			}
		}
	}
}

// write writes the containers of rules, unless the file has changed since it was read.
func (f *snakefile) write(changes []change) error {
	now, err := readSnakefile(f.path)
	if err != nil {
		return err
	}
	if now != strings.Join(f.lines, "") {
		return errors.New("it was changed while the images were built: run the command again")
	}
	path, err := file.Resolve(f.path)
	if err != nil {
		return err
	}
	return file.Replace(path, []byte(f.written(changes)), 0o644)
}

// document is a row in JSON.
type document struct {
	Rule        string `json:"rule"`
	File        string `json:"file"`
	Line        int    `json:"line"` // from 1, before the change
	Environment string `json:"environment,omitempty"`
	Container   string `json:"container,omitempty"`
	Status      string `json:"status"`
	Message     string `json:"message,omitempty"`
}

// print prints the rules in the order of the files, and what could not be read to standard error.
func (f *flags) print(cmd *cobra.Command, all []*row, unread []string) error {
	problems := slices.Clone(unread)
	table := output.Table{{"CONTAINER", "STATUS", "RULE", "FILE"}}
	documents := make([]document, 0, len(all))
	for _, one := range all {
		d := document{
			Rule: one.rule.name, File: filepath.ToSlash(one.file.path), Line: one.rule.line + 1,
			Environment: filepath.ToSlash(one.environment), Container: one.image, Status: one.status,
		}
		at := fmt.Sprintf("%s:%d", d.File, d.Line)
		image := one.image
		if image == "" {
			image = "-"
		}
		if one.err != nil {
			d.Message = one.err.Error()
			problems = append(problems, at+": rule "+d.Rule+": "+d.Message)
		}
		documents = append(documents, d)
		table = append(table, []string{image, d.Status, d.Rule, at})
	}
	text, err := json.Marshal(map[string]any{"rules": documents, "problems": append([]string{}, unread...)})
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
