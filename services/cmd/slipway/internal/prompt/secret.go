// Package prompt asks a person at a terminal, and reads secrets from where no other
// process sees them: a terminal, standard input or a file, never an argument.
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

// maxSecret is the most that is read of a secret, in bytes.
const maxSecret = 100_000

// Dialogue asks a person at a terminal. Its questions go to standard error.
type Dialogue struct {
	cmd  *cobra.Command
	fd   int            // of the terminal; -1 for none
	line *term.Terminal // nil where there is none
}

// New returns a dialogue with whoever types a command.
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

// IsThere says whether there is somebody to ask.
func (d *Dialogue) IsThere() bool { return d.line != nil }

// Ask returns a line; an empty one is what is usual.
func (d *Dialogue) Ask(question, usual string) (string, error) {
	d.line.SetPrompt(fmt.Sprintf("%s [%s]: ", question, usual))
	line, err := d.read(d.line.ReadLine)
	return cmp.Or(strings.TrimSpace(line), usual), err
}

// askSecret returns a line that is not shown while it is typed.
func (d *Dialogue) askSecret(question string) (string, error) {
	line, err := d.read(func() (string, error) { return d.line.ReadPassword(question + " (it is not shown): ") })
	if err != nil {
		return "", err
	}
	return filled(line)
}

// read has the terminal echo nothing before the question is seen, so that no key
// that is struck early shows. Ctrl-C ends the question, as the end of the command does.
func (d *Dialogue) read(line func() (string, error)) (string, error) {
	was, err := term.MakeRaw(d.fd)
	if err != nil {
		return "", fmt.Errorf("preparing the terminal: %w", err)
	}
	defer func() { _ = term.Restore(d.fd, was) }() // nothing better can be done
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
			return "", errors.New("nothing was answered")
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

// ErrNothing is an empty line where a secret was asked for.
var ErrNothing = errors.New("nothing was given")

func filled(secret string) (string, error) {
	if secret = strings.TrimRight(secret, "\r\n"); secret == "" {
		return "", ErrNothing
	}
	return secret, nil
}

// Secret say where a secret comes from. No flag takes the secret itself.
type Secret struct {
	What  string // e.g. "password"
	stdin bool
	File  string
}

// Add adds the flags.
func (f *Secret) Add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.stdin, f.What+"-stdin", false, "Read the "+f.What+" from standard input.")
	cmd.Flags().StringVar(&f.File, f.What+"-file", "", "Read the "+f.What+" from this `file`; - for standard input.")
}

// Given says whether a flag says where the secret is.
func (f *Secret) Given() bool { return f.stdin || f.File != "" }

// Read returns the secret, asking for it where no flag says where it is.
func (f *Secret) Read(d *Dialogue, question string) (string, error) {
	if f.stdin && f.File != "" {
		return "", usage.Errorf("--%s-stdin and --%s-file are two places; one is enough", f.What, f.What)
	}
	if !f.Given() {
		if !d.IsThere() {
			return "", usage.Errorf("no terminal to ask for the %s: give it with --%s-stdin or --%s-file", f.What, f.What, f.What)
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
