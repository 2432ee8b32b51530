package main

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
)

// format is how an answer is printed: "text" and "wide" for people, "json" and "yaml"
// for programs, "name" for scripts: what other commands take, one a line.
type format struct {
	kind string
	chosen
}

// text is the kind that nobody has to ask for.
const text = "text"

func formats() []string { return []string{text, "wide", "json", "yaml", "name"} }

// outputFlag adds -o, and gh's --json and --jq.
func outputFlag(cmd *cobra.Command) *format {
	f := format{kind: text}
	cmd.Flags().Var(fieldsFlag{&f}, "json", "Print these `fields` of each entry as JSON, e.g. buildId,status; null where an entry lacks one.")
	cmd.Flags().Var(&queryFlag{f: &f}, "jq", "Print what this `expression` of jq makes of the JSON.")
	complete(cmd, "json")
	complete(cmd, "jq")
	cmd.Flags().VarP(&f, "output", "o", "How the answer is printed: text, wide, json, yaml or name.")
	complete(cmd, "output", formats()...)
	return &f
}

// Set reads the flag.
func (f *format) Set(s string) error {
	if !slices.Contains(formats(), s) {
		return errors.New("must be text, wide, json, yaml or name")
	}
	if !f.isAll() && s != text {
		return errors.New("is another format than --json and --jq")
	}
	f.kind = s
	return nil
}

// String returns the flag's value.
func (f *format) String() string { return f.kind }

// Type names the flag's kind in the help.
func (f *format) Type() string { return "format" }

// isDocument says whether the server's own answer is printed.
func (f *format) isDocument() bool { return f.kind == "json" || f.kind == "yaml" || !f.isAll() }

// print writes an answer: the server's own document, or the table made from it.
func (f *format) print(w io.Writer, raw []byte, t table) error {
	var b bytes.Buffer
	switch {
	case f.kind == "json", !f.isAll():
		if err := f.write(&b, raw); err != nil {
			return err
		}
	case f.kind == "yaml":
		doc, err := yaml.JSONToYAML(raw)
		if err != nil {
			return fmt.Errorf("writing the answer as YAML: %w", err)
		}
		b.Write(doc)
	case f.kind == "name":
		t.names().write(&b)
	default:
		t.write(&b)
	}
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}

// list writes a list; of one without entries people are told what it is that there is
// none of.
func (f *format) list(cmd *cobra.Command, raw []byte, t table, none string) error {
	if !f.isDocument() && len(t) < 2 {
		return nothing(cmd, none)
	}
	return f.print(cmd.OutOrStdout(), raw, t)
}

// nothing says on standard error, for people, why standard output is empty.
func nothing(cmd *cobra.Command, why string) error {
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), why)
	return err
}

// table is text in columns, a row a line.
type table [][]string

// names are the first column of a list, or the first value of what is described.
func (t table) names() table {
	switch {
	case len(t) == 0 || len(t[0]) == 0:
		return nil
	case len(t[0]) == 1:
		return t
	case t[0][0] != strings.ToUpper(t[0][0]):
		return table{{t[0][1]}}
	}
	var out table
	for _, row := range t[1:] {
		out = append(out, row[:1])
	}
	return out
}

// fact adds a name and its values, one a line. Empty values are left out, and
// so is a name that has no others.
func (t *table) fact(name string, values ...string) {
	for _, v := range values {
		if v != "" {
			*t = append(*t, []string{name, v})
			name = ""
		}
	}
}

// text adds a name and a text of one or more lines.
func (t *table) text(name, text string) {
	if text == "" {
		return
	}
	for l := range strings.Lines(text) {
		*t = append(*t, []string{name, plainText(strings.TrimRight(l, "\r\n"))})
		name = ""
	}
}

// write aligns the columns. What is in the cells comes from strangers: nothing
// in it may steer a terminal.
func (t table) write(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, row := range t {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = printable(c)
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // a buffer takes everything
	}
	_ = w.Flush()
}
