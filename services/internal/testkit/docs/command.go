package docs

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"
)

// A Command is a command line in a document.
type Command struct {
	// Words holds the program and its arguments. An expansion is "$".
	Words []string
	// IsWhole reports whether the command is complete, so that it can be typed: it is in a
	// block, and nothing is left out.
	IsWhole bool
}

func (c Command) String() string { return strings.Join(c.Words, " ") }

// Commands returns the commands of the page that start program: those in blocks of shell
// commands, and those in sentences.
func (p Page) Commands(program string) ([]Command, error) {
	var out []Command
	add := func(text string, isBlock bool) error {
		calls, err := calls(text)
		if err != nil {
			return fmt.Errorf("%s: %w in %q", p.Path, err, text)
		}
		for _, words := range calls {
			if words = unwrap(words); len(words) > 0 && path.Base(words[0]) == program && !strings.Contains(words[0], "deploy/") {
				whole := isBlock && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "…") })
				out = append(out, Command{words, whole})
			}
		}
		return nil
	}
	for _, b := range p.Blocks() {
		if b.Language == "sh" {
			if err := add(b.Text, true); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range p.Spans() {
		// A span can be half a command, which is no error of the page.
		if strings.Contains(s, program+" ") {
			if err := add(s, false); err != nil {
				continue
			}
		}
	}
	return out, nil
}

// calls returns the simple commands of a shell script, also those in substitutions.
func calls(script string) ([][]string, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	var out [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			var words []string
			for _, w := range call.Args {
				words = append(words, literal(w.Parts))
			}
			out = append(out, words)
		}
		return true
	})
	return out, nil
}

// literal returns a word with "$" for each expansion.
func literal(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(literal(p.Parts))
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// unwrap removes programs that start another one, e.g. sudo.
func unwrap(words []string) []string {
	for len(words) > 1 {
		at := 0
		switch words[0] {
		case "sudo":
			at = 1
		case "xargs":
			at = slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(path.Base(w), "slipway") })
			words = append(words, "$") // the argument that xargs reads
		case "kubectl":
			at = slices.Index(words, "--") + 1
		case "docker":
			if i := slices.Index(words, "exec"); words[1] == "compose" && i > 0 && i+2 < len(words) {
				at = i + 2
			}
		}
		if at <= 0 {
			return words
		}
		words = words[at:]
	}
	return words
}

// Check returns an error if a program would reject the command because of an unknown subcommand
// or flag or, if the command is whole, because of missing or wrong arguments. command returns a
// new root command of the program.
func (c Command) Check(command func() *cobra.Command) error {
	cmd := command()
	cmd.InitDefaultCompletionCmd(c.Words[1:]...)
	cmd.InitDefaultHelpCmd()
	args := c.Words[1:]
	for len(args) > 0 {
		at := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.Name() == args[0] || sub.HasAlias(args[0]) })
		if at < 0 {
			break
		}
		cmd, args = cmd.Commands()[at], args[1:]
	}
	isName := len(args) > 0 && strings.Trim(args[0], "abcdefghijklmnopqrstuvwxyz-") == "" && !strings.HasPrefix(args[0], "-")
	if isName && cmd.HasSubCommands() {
		return fmt.Errorf("`%s` has no command %s", cmd.CommandPath(), args[0])
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if !c.IsWhole {
		return flagsExist(cmd, args)
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	if !cmd.Runnable() {
		return errors.New("it only shows its help")
	}
	return errors.Join(cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
}

// flagsExist checks the names of flags.
func flagsExist(cmd *cobra.Command, args []string) error {
	for _, a := range args {
		name, isFlag := strings.CutPrefix(a, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && cmd.Flag(name) == nil {
			return fmt.Errorf("`%s` has no flag --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

// HasFlag reports whether any command of a program has a flag.
func HasFlag(cmd *cobra.Command, name string) bool {
	cmd.InitDefaultHelpFlag()
	return cmd.Flag(name) != nil || slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return HasFlag(sub, name) })
}
