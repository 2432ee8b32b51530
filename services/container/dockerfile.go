package container

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"slipway.dev/services/internal/fault"
)

// instruction is one logical line of a Dockerfile: comments are left out, and
// continued lines joined.
type instruction struct {
	// name is in upper case, e.g. "FROM".
	name string
	// flags are the words that begin with "--", without quotes.
	flags []string
	// rest is what follows them.
	rest string
	// line is where it begins, from 1.
	line int
}

// sourceFile is a Dockerfile as far as we read one: enough to say which images a
// build of it reads. Where an engine could read a line in another way than this
// reader, the reader refuses it: an image that we overlook is one that nobody
// checked.
type sourceFile struct {
	// escape is the character that continues lines: `\`, or a backtick.
	escape       byte
	instructions []instruction
}

// readDockerfile follows the Dockerfile reference of BuildKit 0.33. fault.Invalid,
// naming the line, for what is malformed or what we cannot be sure of.
func readDockerfile(text string) (sourceFile, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return sourceFile{}, fault.Invalid.Newf("the Dockerfile must be text in UTF-8")
	}
	lines := splitLines(strings.TrimPrefix(text, "\ufeff"))
	escape, err := escapeDirective(lines)
	if err != nil {
		return sourceFile{}, err
	}
	d := sourceFile{escape: escape}
	for at := 0; at < len(lines); {
		first := at + 1
		var line string
		line, at = joinLines(lines, at, escape)
		if line == "" {
			continue
		}
		in, err := readInstruction(line)
		if err != nil {
			return d, atLine(first, err)
		}
		in.line = first
		d.instructions = append(d.instructions, in)
		if at, err = skipHeredocs(in, lines, at, line); err != nil {
			return d, atLine(first, err)
		}
	}
	return d, nil
}

func atLine(n int, err error) error {
	if e, ok := fault.As(err); ok {
		return e.Kind.New(fmt.Sprintf("line %d: %s", n, e.Public), e.Cause)
	}
	return err
}

// splitLines drops the lines' ends, also those of other systems.
func splitLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], "\r")
	}
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// escapeDirective reads `# escape=` from the directives at the top. They end with
// the first line that is none.
func escapeDirective(lines []string) (byte, error) {
	seen := map[string]bool{}
	for i, line := range lines {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		text, isComment := strings.CutPrefix(line, "#")
		name, value, ok := strings.Cut(strings.TrimLeftFunc(text, unicode.IsSpace), "=")
		name, value = strings.ToLower(strings.Trim(name, blanks)), strings.Trim(value, blanks)
		if !isComment || !ok || value == "" || (name != "syntax" && name != "check" && name != "escape") {
			return '\\', nil
		}
		if seen[name] {
			return 0, atLine(i+1, fault.Invalid.Newf("there can be only one %s directive", name))
		}
		seen[name] = true
		if name != "escape" {
			continue
		}
		if value != `\` && value != "`" {
			return 0, atLine(i+1, fault.Invalid.Newf(`the escape directive must name \ or a backtick`))
		}
		return value[0], nil
	}
	return '\\', nil
}

// blanks are the white space of ASCII.
const blanks = " \t\n\v\f\r"

// joinLines puts a logical line together and answers where the next one begins.
// Comments and empty lines within it are left out.
func joinLines(lines []string, at int, escape byte) (string, int) {
	var out strings.Builder
	for first := true; at < len(lines); first = false {
		line := lines[at]
		at++
		bare := strings.TrimLeftFunc(line, unicode.IsSpace)
		if strings.HasPrefix(bare, "#") || bare == "" {
			if first {
				return "", at
			}
			continue
		}
		if first {
			line = bare
		}
		part, continued := cutContinuation(line, escape)
		out.WriteString(part)
		if !continued {
			break
		}
	}
	return strings.TrimSpace(out.String()), at
}

// cutContinuation looks for the escape character at the end of a line; blanks may
// follow it. One that is itself escaped continues nothing.
func cutContinuation(line string, escape byte) (string, bool) {
	bare := strings.TrimRight(line, " \t")
	n := len(bare)
	if n == 0 || bare[n-1] != escape || (n > 1 && bare[n-2] == escape) {
		return line, false
	}
	return bare[:n-1], true
}

// isInstruction says whether there is an instruction of this name. Engines refuse
// others, and so do we.
func isInstruction(name string) bool {
	switch name {
	case "ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER",
		"ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR":
		return true
	}
	return false
}

func readInstruction(line string) (instruction, error) {
	name, rest := line, ""
	if i := strings.IndexAny(line, "\t\v\f\r "); i >= 0 {
		name, rest = line[:i], line[i:]
	}
	in := instruction{name: strings.ToUpper(name)}
	if !isInstruction(in.name) {
		return in, fault.Invalid.Newf("%q is no Dockerfile instruction", clip(name))
	}
	var err error
	in.flags, in.rest, err = cutFlags(strings.TrimLeft(rest, "\t\v\f\r "))
	in.rest = strings.TrimSpace(in.rest)
	return in, err
}
