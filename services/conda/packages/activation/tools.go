package activation

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"slipway.dev/services/internal/limits"
)

// tools returns the programs that the evaluator implements, by name. They only read and
// write text.
func tools() map[string]func(*run, []string) error {
	return map[string]func(*run, []string) error{
		"echo": (*run).echo, "printf": (*run).printf, "basename": (*run).basename, "dirname": (*run).dirname, "uname": (*run).uname, "tr": (*run).tr, "sed": (*run).sed, "cat": (*run).cat,
		"cd": (*run).cd, "pwd": (*run).pwd,
	}
}

func (r *run) echo(args []string) error {
	end, escapes := "\n", false
	for len(args) > 0 && (args[0] == "-n" || args[0] == "-e") {
		if args[0] == "-n" {
			end = ""
		} else {
			escapes = true
		}
		args = args[1:]
	}
	if escapes && r.out != nil && slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, `\`) }) {
		return unsupported("unsupported use of echo -e")
	}
	return r.print(strings.Join(args, " ") + end)
}

// printf supports only %s, %%, \n, \t and \\.
func (r *run) printf(args []string) error {
	if len(args) == 0 || args[0] == "-v" {
		return unsupported("unsupported use of printf")
	}
	if r.out == nil {
		return r.charge(len(args[0]))
	}
	format, args := args[0], args[1:]
	used := 0
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		if i++; i == len(format) {
			return unsupported("unsupported use of printf")
		}
		switch string([]byte{c, format[i]}) {
		case "%s":
			if used < len(args) {
				b.WriteString(args[used])
			}
			used++
		case "%%":
			b.WriteByte('%')
		case `\n`:
			b.WriteByte('\n')
		case `\t`:
			b.WriteByte('\t')
		case `\\`:
			b.WriteByte('\\')
		default:
			return unsupported("unsupported use of printf")
		}
	}
	if used < len(args) {
		return unsupported("printf has more arguments than its format")
	}
	return r.print(b.String())
}

func (r *run) basename(args []string) error {
	if len(args) == 0 || len(args) > 2 || strings.HasPrefix(args[0], "-") || args[0] == "" {
		return unsupported("unsupported use of basename")
	}
	name := path.Base(args[0])
	if len(args) == 2 && name != args[1] {
		name = strings.TrimSuffix(name, args[1])
	}
	return r.print(name + "\n")
}

func (r *run) dirname(args []string) error {
	if len(args) != 1 || strings.HasPrefix(args[0], "-") || strings.Contains(args[0], "//") {
		return unsupported("unsupported use of dirname")
	}
	name := strings.TrimRight(args[0], "/")
	at := strings.LastIndexByte(name, '/')
	switch {
	case name == "" && args[0] != "", at == 0:
		name = "/"
	case at < 0:
		name = "."
	default:
		name = name[:at]
	}
	return r.print(name + "\n")
}

func (r *run) uname(args []string) error {
	switch {
	case len(args) == 0 || args[0] == "-s" && len(args) == 1:
		return r.print("Linux\n")
	case len(args) == 1 && args[0] == "-m" && r.env.Machine != "":
		return r.print(r.env.Machine + "\n")
	}
	return unsupported("unsupported use of uname")
}

// input returns the standard input.
func (r *run) input(name string) (string, error) {
	if r.in == nil {
		return "", unsupported("%s reads a file or a terminal", name)
	}
	return *r.in, r.charge(len(*r.in))
}

func (r *run) cat(args []string) error {
	if len(args) > 0 {
		return unsupported("it reads a file")
	}
	text, err := r.input("cat")
	if err != nil {
		return err
	}
	return r.print(text)
}

// tr translates the characters of the input, or deletes them (-d).
func (r *run) tr(args []string) error {
	if len(args) != 2 {
		return unsupported("unsupported use of tr")
	}
	text, err := r.input("tr")
	if err != nil {
		return err
	}
	if !utf8.ValidString(text) {
		return unsupported("the input of tr is not UTF-8")
	}
	if err := r.charge(len(text) * (len(args[0]) + len(args[1]))); err != nil {
		return err
	}
	if args[0] == "-d" {
		from, err := charset(args[1])
		if err != nil {
			return err
		}
		return r.print(strings.Map(func(c rune) rune {
			if strings.ContainsRune(from, c) {
				return -1
			}
			return c
		}, text))
	}
	from, err1 := charset(args[0])
	to, err2 := charset(args[1])
	if err1 != nil || err2 != nil || to == "" {
		return unsupported("unsupported use of tr")
	}
	return r.print(strings.Map(func(c rune) rune {
		at := strings.LastIndexByte(from, byte(c))
		if c > 127 || at < 0 {
			return c
		}
		return rune(to[min(at, len(to)-1)])
	}, text))
}

// charset expands a character set of tr.
func charset(text string) (string, error) {
	switch text {
	case "[:upper:]":
		text = "A-Z"
	case "[:lower:]":
		text = "a-z"
	}
	if strings.ContainsAny(text, `[]\`) || strings.HasPrefix(text, "-") && text != "-" {
		return "", unsupported("unsupported use of tr")
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] > 127 || i+2 < len(text) && text[i+2] > 127 || b.Len() > limits.ActivationPattern {
			return "", unsupported("unsupported use of tr")
		}
		if i+2 < len(text) && text[i+1] == '-' {
			for c := text[i]; c <= text[i+2]; c++ {
				b.WriteByte(c)
			}
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String(), nil
}

// cd changes the working directory of a subshell.
func (r *run) cd(args []string) error {
	if r.out == nil || len(args) != 1 {
		return unsupported("it changes the working directory")
	}
	kind, err := r.kind(args[0])
	if err != nil {
		return err
	}
	if kind != Folder {
		return unsupported("it changes to a folder that may be a link, or does not exist")
	}
	if !strings.HasPrefix(args[0], "/") {
		args[0] = r.folder + "/" + args[0]
	}
	r.folder = path.Clean(args[0])
	return nil
}

func (r *run) pwd(args []string) error {
	if r.folder == "" || len(args) > 0 && args[0] != "-P" && args[0] != "-L" {
		return unsupported("it reads the working directory")
	}
	return r.print(r.folder + "\n")
}
