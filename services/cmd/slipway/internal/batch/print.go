package batch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
)

// row is a container in JSON.
type row struct {
	Name string `json:"name"`
	// Status is "ready", "building", "failed" or, with --dry-run, "unbuilt".
	Status   string          `json:"status"`
	Response json.RawMessage `json:"response,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Lock     string          `json:"lock,omitempty"`
	Message  string          `json:"message,omitempty"`
	Code     string          `json:"code,omitempty"`
	Details  json.RawMessage `json:"details,omitempty"`
}

// print prints the results, in the order of the inputs.
func (r *run) print(cmd *cobra.Command, format *output.Format, dryRun bool) error {
	rows := make([]row, 0, len(r.all))
	table := output.Table{{"IMAGE", "STATUS", "NAME"}}
	var problems strings.Builder
	for _, c := range r.all {
		one, err := c.row()
		if err != nil {
			return err
		}
		rows = append(rows, one)
		image := c.result.GetResponse().GetTargetImage()
		if dryRun && !c.result.GetResponse().GetCached() {
			image = strings.Replace(image, "/wt/"+c.result.GetResponse().GetContainerToken()+"/", "/wt/<token>/", 1)
		}
		if c.failed() {
			image = "-"
			fmt.Fprintf(&problems, "%s: %s\n", output.Printable(c.name), output.PrintableLines(c.result.GetMessage()))
		}
		if c.note != "" {
			fmt.Fprintf(&problems, "%s: %s\n", output.Printable(c.name), output.Printable(c.note))
		}
		table = append(table, []string{image, one.Status, c.name})
	}
	text, err := json.Marshal(map[string]any{"results": rows})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if !format.IsDocument() {
		cmd.PrintErr(problems.String())
	}
	return format.Print(cmd.OutOrStdout(), text, table)
}

// row returns a container in JSON.
func (c *container) row() (row, error) {
	out := row{Name: c.name, Status: "ready", Digest: c.record.Digest, Lock: c.record.Lock, Message: c.result.GetMessage(), Code: c.result.GetCode()}
	switch {
	case c.failed():
		out.Status = "failed"
	case c.pending && c.request.GetDryRun():
		out.Status = "unbuilt"
	case c.pending:
		out.Status = "building"
	}
	var err error
	if res := c.result.GetResponse(); res != nil {
		if out.Response, err = raw(res); err != nil {
			return out, err
		}
	}
	if d := c.result.GetDetails(); d != nil {
		out.Details, err = raw(d)
	}
	return out, err
}
