// Package output prints responses: tables for users, documents and selected fields for
// programs, once or repeatedly. It removes terminal control sequences from external text.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Format is an output format: "text" and "wide" for users, "json" and "yaml" for programs,
// and "name" for scripts, which prints the arguments for other commands, one per line.
type Format struct {
	Kind   string
	shapes []shape // of the documents that the command prints
	cmd    *cobra.Command
	chosen
}

// text is the default kind.
const text = "text"

func formats() []string { return []string{text, "wide", "json", "yaml", "name"} }

// Flag adds -o, and --json and --jq as in gh, for a command that prints one of these documents; see Of.
func Flag(cmd *cobra.Command, docs ...any) *Format {
	f := &Format{Kind: text, cmd: cmd}
	f.Of(docs...)
	cmd.Flags().Var(fieldsFlag{f}, "json", "Print these `fields` of each entry as JSON, with commas between them; null where an entry lacks one. Without a value, it lists the fields.")
	cmd.Flags().Var(&queryFlag{f: f}, "jq", "Print the result of this jq `expression` on the JSON.")
	usage.CompleteFlagFrom(cmd, "json", f.complete)
	usage.CompleteFlag(cmd, "jq")
	cmd.Flags().VarP(f, "output", "o", "The output format: text, wide, json, yaml or name.")
	usage.CompleteFlag(cmd, "output", formats()...)
	return f
}

// IsJSON reports whether a command line requests JSON.
func IsJSON(cmd *cobra.Command) bool {
	f := cmd.Flags().Lookup("output")
	return f != nil && (f.Value.String() == "json" || cmd.Flags().Changed("json") || cmd.Flags().Changed("jq"))
}

// Set parses the flag.
func (f *Format) Set(s string) error {
	if !slices.Contains(formats(), s) {
		return errors.New("must be text, wide, json, yaml or name")
	}
	if !f.isAll() && s != text {
		return errors.New("is another format than --json and --jq")
	}
	f.Kind = s
	return nil
}

// String returns the flag's value.
func (f *Format) String() string { return f.Kind }

// Type returns the flag's type for the help.
func (f *Format) Type() string { return "format" }

// IsDocument reports whether the server's own document is printed.
func (f *Format) IsDocument() bool { return f.Kind == "json" || f.Kind == "yaml" || !f.isAll() }

// Print writes a response: the server's document, or the table made from it.
func (f *Format) Print(w io.Writer, raw []byte, t Table) error {
	var b bytes.Buffer
	raw = withList(raw, f.shapes)
	switch {
	case f.Kind == "json", !f.isAll():
		if err := f.write(&b, raw, f.shapes); err != nil {
			return err
		}
	case f.Kind == "yaml":
		doc, err := yaml.JSONToYAML(raw)
		if err != nil {
			return fmt.Errorf("writing the answer as YAML: %w", err)
		}
		b.Write(doc)
	case f.Kind == "name":
		t.names().Write(&b)
	default:
		t.Write(&b)
		if f.cmd != nil && HasColour(f.cmd, w) {
			b = *bytes.NewBuffer(colouredTable(b.Bytes(), t.isList()))
		}
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}

// List writes a list. For an empty list it prints a message to standard error.
func (f *Format) List(cmd *cobra.Command, raw []byte, t Table, none string) error {
	if !f.IsDocument() && len(t) < 2 {
		return explainEmpty(cmd, none)
	}
	return f.Print(cmd.OutOrStdout(), raw, t)
}

// explainEmpty prints to standard error why standard output is empty.
func explainEmpty(cmd *cobra.Command, why string) error {
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), why)
	return err
}

// Table is text in columns, one row per line.
type Table [][]string

// names returns the first column of a list, or the first value of a description.
func (t Table) names() Table {
	switch {
	case len(t) == 0 || len(t[0]) == 0:
		return nil
	case len(t[0]) == 1:
		return t
	case t[0][0] != strings.ToUpper(t[0][0]):
		return Table{{t[0][1]}}
	}
	var out Table
	for _, row := range t[1:] {
		out = append(out, row[:1])
	}
	return out
}

// Fact adds a name and its values, one per line. Empty values are omitted, and so is a name
// without other values.
func (t *Table) Fact(name string, values ...string) {
	for _, v := range values {
		if v != "" {
			*t = append(*t, []string{name, v})
			name = ""
		}
	}
}

// Text adds a name and a text of one or more lines.
func (t *Table) Text(name, text string) {
	if text == "" {
		return
	}
	for l := range strings.Lines(text) {
		*t = append(*t, []string{name, PlainText(strings.TrimRight(l, "\r\n"))})
		name = ""
	}
}

// Write aligns the columns. Cells contain external text, so control characters are removed.
func (t Table) Write(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range t {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Printable(c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // a buffer never fails
	}
	_ = w.Flush()
}
