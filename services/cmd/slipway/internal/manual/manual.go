// Package manual writes the manual pages of a command line: one for each command, from the texts of its help. The texts are plain text
// with commands in backquotes, and not Markdown, so the generator of cobra does not fit.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Command returns `slipway man`, which writes the pages of the command line that whole returns. They have the date of SOURCE_DATE_EPOCH, if it
// is set.
func Command(version string, env func(string) string, whole func() *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages of all commands",
		Long: `Write the manual pages of all commands into a directory, which is created if needed.
The deb and rpm packages have them: ` + "`man slipway`, `man slipway-conda`" + `.`,
		Example: "  slipway man /usr/local/share/man/man1",
		Args:    usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := time.Now()
			if seconds, err := strconv.ParseInt(env("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
				at = time.Unix(seconds, 0)
			}
			n, err := Write(args[0], whole(), version, at)
			if err != nil {
				return fmt.Errorf("writing the manual pages: %w", err)
			}
			cmd.PrintErrln("Wrote", output.Count(n, "page")+".")
			return nil
		},
	}
}

// Write writes a page for a command and each of its subcommands into a directory, and returns their number.
func Write(dir string, cmd *cobra.Command, version string, at time.Time) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // all users read manual pages
		return 0, err
	}
	cmd.InitDefaultHelpFlag()
	path := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(path, []byte(page(cmd, version, at)), 0o644); err != nil { //nolint:gosec // all users read manual pages
		return 0, err
	}
	n := 1
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() || below.Name() == "help" {
			continue
		}
		pages, err := Write(dir, below, version, at)
		if err != nil {
			return n, err
		}
		n += pages
	}
	return n, nil
}

// pageName returns the name of a command's page, for example "slipway-bundle-load".
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the page of a command, in the macros of man(7).
func page(cmd *cobra.Command, version string, at time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quoted(strings.ToUpper(pageName(cmd))), quoted(at.UTC().Format(time.DateOnly)), quoted("slipway "+version), quoted("Slipway"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escaped(pageName(cmd)), escaped(strings.ReplaceAll(cmd.Short, "`", "")))
	b.WriteString(".SH SYNOPSIS\n.B " + escaped(cmd.UseLine()) + "\n")
	b.WriteString(".SH DESCRIPTION\n")
	text(&b, cmp.Or(cmd.Long, cmd.Short+"."))
	commands(&b, cmd)
	flags(&b, "OPTIONS", cmd.NonInheritedFlags())
	flags(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n")
		lines(&b, cmd.Example)
		b.WriteString(".fi\n")
	}
	if cmd.HasParent() {
		b.WriteString(".SH SEE ALSO\n.BR " + escaped(pageName(cmd.Parent())) + " (1)\n")
	}
	return b.String()
}

// commands writes the subcommands.
func commands(b *strings.Builder, cmd *cobra.Command) {
	write := func(title string, of func(*cobra.Command) bool) {
		for _, below := range cmd.Commands() {
			if !below.IsAvailableCommand() || !of(below) {
				continue
			}
			if title != "" {
				b.WriteString(title)
				title = ""
			}
			b.WriteString(".TP\n.BR " + escaped(pageName(below)) + " (1)\n" + inline(below.Short) + "\n")
		}
	}
	if !cmd.HasAvailableSubCommands() {
		return
	}
	b.WriteString(".SH COMMANDS\n")
	for _, g := range cmd.Groups() {
		write(".SS "+quoted(strings.TrimSuffix(g.Title, ":"))+"\n", func(c *cobra.Command) bool { return c.GroupID == g.ID })
	}
	write("", func(c *cobra.Command) bool { return c.GroupID == "" })
}

// flags writes the flags of a command.
func flags(b *strings.Builder, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + quoted(title) + "\n")
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, help := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			b.WriteString("\\fB\\-" + escaped(f.Shorthand) + "\\fR, ")
		}
		b.WriteString("\\fB\\-\\-" + escaped(f.Name) + "\\fR")
		if value != "" {
			b.WriteString(" \\fI" + escaped(value) + "\\fR")
		}
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
			help += " (default: " + d + ")"
		}
		b.WriteString("\n" + inline(help) + "\n")
	})
}

// text writes paragraphs. Lines that begin with a space are not filled.
func text(b *strings.Builder, s string) {
	isFilled := true
	for line := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		if fill := !strings.HasPrefix(line, " "); fill != isFilled && line != "" {
			b.WriteString(map[bool]string{true: ".fi\n", false: ".nf\n"}[fill])
			isFilled = fill
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(inline(line) + "\n")
	}
	if !isFilled {
		b.WriteString(".fi\n")
	}
}

// lines writes lines that are not filled.
func lines(b *strings.Builder, s string) {
	for line := range strings.SplitSeq(strings.Trim(s, "\n"), "\n") {
		b.WriteString(escaped(line) + "\n")
	}
}

// inline returns a line whose text in backquotes is bold.
func inline(s string) string {
	parts := strings.Split(s, "`")
	for i, part := range parts {
		if parts[i] = escapedWord(part); i%2 == 1 && len(parts)%2 == 1 {
			parts[i] = "\\fB" + parts[i] + "\\fR"
		} else if i%2 == 1 {
			parts[i] = "`" + parts[i]
		}
	}
	return protected(strings.Join(parts, ""))
}

// escaped returns text that is printed as it is.
func escaped(s string) string { return protected(escapedWord(s)) }

// escapedWord escapes text that may not begin a line.
func escapedWord(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`).Replace(output.Printable(s))
}

// protected returns a line that is no request.
func protected(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

// quoted returns an argument of a request.
func quoted(s string) string { return `"` + strings.ReplaceAll(escapedWord(s), `"`, `\(dq`) + `"` }
