package output

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// colourMark is the annotation of a root command whose environment allows colours.
const colourMark = "slipway.colour"

const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

// AllowColour lets the commands below root write colours to terminals, unless the environment has NO_COLOR (no-color.org) or a terminal
// without colours.
func AllowColour(root *cobra.Command, env func(string) string) {
	if env("NO_COLOR") == "" && env("TERM") != "" && env("TERM") != "dumb" {
		if root.Annotations == nil {
			root.Annotations = map[string]string{}
		}
		root.Annotations[colourMark] = ""
	}
}

// HasColour reports whether a command may write colours to w, which must be a terminal.
func HasColour(cmd *cobra.Command, w io.Writer) bool {
	if _, ok := cmd.Root().Annotations[colourMark]; !ok {
		return false
	}
	return IsTerminal(w)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Problem returns the name of the program for the beginning of an error message, in red on a terminal.
func Problem(cmd *cobra.Command) string {
	if HasColour(cmd, cmd.ErrOrStderr()) {
		return bold + red + "slipway:" + reset
	}
	return "slipway:"
}

// heading matches a heading of a help text.
var heading = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[A-Z][A-Za-z -]*:$`)
})

// badCell matches a cell with a state that is a failure. Cells are between the ends of a line and two spaces.
var badCell = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(^|  )(FAILED(?: \([a-z-]*\))?|CANCELLED|failed|fail|CRITICAL|critical)(  |$)`)
})

// goodCell matches a cell with a state that is a success.
var goodCell = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(^|  )(SUCCEEDED|COMPLETED|ready|ok)(  |$)`)
})

// colouredHelp makes the headings of a help text bold.
func colouredHelp(text []byte) []byte {
	return heading().ReplaceAll(text, []byte(bold+"$0"+reset))
}

// colouredTable makes the head of a list bold, and colours states.
func colouredTable(text []byte, isList bool) []byte {
	head, rest := []byte{}, text
	if i := bytes.IndexByte(text, '\n'); isList && i >= 0 {
		head, rest = []byte(bold+string(text[:i])+reset+"\n"), text[i+1:]
	}
	rest = badCell().ReplaceAll(rest, []byte("$1"+red+"$2"+reset+"$3"))
	rest = goodCell().ReplaceAll(rest, []byte("$1"+green+"$2"+reset+"$3"))
	return append(head, rest...)
}

// isList reports whether a table begins with the names of its columns.
func (t Table) isList() bool {
	return len(t) > 0 && len(t[0]) > 1 && t[0][0] == strings.ToUpper(t[0][0])
}

// ColourHelp makes the help of a command and its subcommands use colours on terminals.
func ColourHelp(root *cobra.Command) {
	plain := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out := cmd.OutOrStdout()
		if !HasColour(cmd, out) {
			plain(cmd, args)
			return
		}
		var text bytes.Buffer
		cmd.SetOut(&text)
		plain(cmd, args)
		cmd.SetOut(out)
		_, _ = out.Write(colouredHelp(text.Bytes())) // like the function that it replaces
	})
}
