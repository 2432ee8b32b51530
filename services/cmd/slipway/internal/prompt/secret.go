// Package prompt prompts users at a terminal. It reads secrets from the terminal, standard
// input or a file, and never from arguments, which other processes can read.
package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// maxSecret is the maximum length of a secret in bytes.
const maxSecret = 100_000

// Dialogue asks a user at a terminal. Its questions go to standard error.
type Dialogue struct {
	cmd  *cobra.Command
	fd   int            // of the terminal; -1 for none
	line *term.Terminal // nil for none
}

// New returns a dialogue with the user of a command.
func New(cmd *cobra.Command) *Dialogue {
	d := &Dialogue{cmd: cmd, fd: -1}
	if f, ok := cmd.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		d.fd = int(f.Fd())
		d.line = term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{f, cmd.ErrOrStderr()}, "")
	}
	return d
}

// IsAvailable reports whether there is a terminal.
func (d *Dialogue) IsAvailable() bool { return d.line != nil }

// Ask returns a line, or the default for an empty one.
func (d *Dialogue) Ask(question, usual string) (string, error) {
	d.line.SetPrompt(fmt.Sprintf("%s [%s]: ", question, usual))
	line, err := d.read(d.line.ReadLine)
	return cmp.Or(strings.TrimSpace(line), usual), err
}

// askSecret returns a line that is not echoed.
func (d *Dialogue) askSecret(question string) (string, error) {
	line, err := d.read(func() (string, error) { return d.line.ReadPassword(question + " (it is not shown): ") })
	if err != nil {
		return "", err
	}
	return filled(line)
}

// read disables the terminal's echo before the question is shown, so that no early key is
// visible. Ctrl-C ends the question, as does the end of the command.
func (d *Dialogue) read(line func() (string, error)) (string, error) {
	was, err := term.MakeRaw(d.fd)
	if err != nil {
		return "", fmt.Errorf("preparing the terminal: %w", err)
	}
	defer func() { _ = term.Restore(d.fd, was) }() // the error cannot be handled
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		s, err := line()
		answered <- answer{s, err}
	}()
	select {
	case a := <-answered:
		if errors.Is(a.err, io.EOF) { // Ctrl-C, Ctrl-D
			d.cmd.PrintErr("\r\n")
			return "", errors.New("nothing was entered")
		}
		if a.err != nil {
			return "", fmt.Errorf("reading the answer: %w", a.err)
		}
		return a.line, nil
	case <-d.cmd.Context().Done():
		d.cmd.PrintErr("\r\n")
		return "", d.cmd.Context().Err()
	}
}

// ErrNothing is returned for an empty line in place of a secret.
var ErrNothing = errors.New("nothing was entered")

func filled(secret string) (string, error) {
	if secret = strings.TrimRight(secret, "\r\n"); secret == "" {
		return "", ErrNothing
	}
	return secret, nil
}

// Secret holds the flags that locate a secret. No flag takes the secret itself.
type Secret struct {
	What  string // for example "password"
	stdin bool
	File  string
}

// Add adds the flags.
func (f *Secret) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.stdin, f.What+"-stdin", false, "Read the "+f.What+" from standard input.")
	cmd.Flags().StringVar(&f.File, f.What+"-file", "", "Read the "+f.What+" from this `file`; - for standard input.")
}

// IsSet reports whether a flag locates the secret.
func (f *Secret) IsSet() bool { return f.stdin || f.File != "" }

// Read returns the secret. It prompts for it unless a flag locates it.
func (f *Secret) Read(d *Dialogue, question string) (string, error) {
	if f.stdin && f.File != "" {
		return "", usage.Errorf("--%s-stdin and --%s-file cannot be used together; give one", f.What, f.What)
	}
	if !f.IsSet() {
		if !d.IsAvailable() {
			return "", usage.Errorf("no terminal to prompt for the %s: give it with --%s-stdin or --%s-file", f.What, f.What, f.What)
		}
		return d.askSecret(question)
	}
	source := d.cmd.InOrStdin()
	if f.File != "" && f.File != "-" {
		file, err := os.Open(f.File)
		if err != nil {
			return "", fmt.Errorf("reading the %s: %w", f.What, err)
		}
		defer file.Close()
		source = file
	}
	raw, err := io.ReadAll(io.LimitReader(source, maxSecret+1))
	if err == nil && len(raw) > maxSecret {
		err = fmt.Errorf("it is larger than %d bytes", maxSecret)
	}
	secret := ""
	if err == nil {
		secret, err = filled(string(raw))
	}
	if err != nil {
		return "", fmt.Errorf("reading the %s: %w", f.What, err)
	}
	return secret, nil
}
