// Package dockerfile changes a Dockerfile according to docker's flags: its last stage, and
// the values of its arguments. The server interprets everything else.
package dockerfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// instruction is an instruction of a Dockerfile, with its lines [from, to).
type instruction struct {
	word, rest string // the keyword in capitals, and the rest of its first line
	from, to   int
}

var (
	heredocs = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
	})
	stageName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\sAS\s+(\S+)\s*$`)
	})
)

// readDockerfile finds the instructions of a Dockerfile, to locate its stages. An
// instruction continues after a line that ends in a backslash, and to the end of its
// here-documents. See the Dockerfile reference, "Format" and "Here-documents".
func readDockerfile(lines []string) []instruction {
	var out []instruction
	for i := 0; i < len(lines); {
		text := strings.TrimSpace(lines[i])
		if text == "" || strings.HasPrefix(text, "#") {
			i++
			continue
		}
		word, rest, _ := strings.Cut(text, " ")
		in := instruction{word: strings.ToUpper(word), rest: strings.TrimSpace(rest), from: i}
		for i++; i < len(lines) && strings.HasSuffix(strings.TrimRight(lines[i-1], " \t\r"), `\`); i++ {
			for i < len(lines)-1 && strings.HasPrefix(strings.TrimSpace(lines[i]), "#") {
				i++ // a comment in between
			}
		}
		if in.word == "RUN" || in.word == "COPY" || in.word == "ADD" {
			i = endOfHeredocs(lines, in.from, i)
		}
		in.to = i
		out = append(out, in)
	}
	return out
}

// endOfHeredocs returns the line after the here-documents that begin in lines [from, to).
func endOfHeredocs(lines []string, from, to int) int {
	for _, m := range heredocs().FindAllStringSubmatch(strings.Join(lines[from:to], "\n"), -1) {
		for at := to; at < len(lines); at++ {
			if strings.Trim(lines[at], "\t\r") == m[1] {
				to = at + 1
				break
			}
		}
	}
	return to
}

// UntilStage removes everything after the stage target, since the last stage is built. A
// target is a name (FROM … AS NAME) or a number from 0.
func UntilStage(text, target string) (string, error) {
	lines := strings.Split(text, "\n")
	found, number := false, -1
	var names []string
	for _, in := range readDockerfile(lines) {
		if in.word != "FROM" {
			continue
		}
		if found {
			return strings.Join(lines[:in.from], "\n"), nil
		}
		number++
		name := strconv.Itoa(number)
		if m := stageName().FindStringSubmatch(in.rest); m != nil {
			name = m[1]
		}
		names = append(names, name)
		found = strings.EqualFold(name, target) || strconv.Itoa(number) == target
	}
	if !found {
		return "", usage.Errorf("--target: the Dockerfile has no stage %q; it has %s", target, strings.Join(names, ", "))
	}
	return text, nil
}

// WithArguments sets the values of ARG instructions. An argument without an ARG is an
// error, because it would have no effect.
func WithArguments(text string, values map[string]string) (string, error) {
	lines := strings.Split(text, "\n")
	asked := map[string]bool{}
	for _, in := range readDockerfile(lines) {
		if in.word != "ARG" {
			continue
		}
		for i := in.from; i < in.to; i++ {
			lines[i] = setArguments(lines[i], values, asked)
		}
	}
	var idle []string
	for name := range values {
		if !asked[name] {
			idle = append(idle, name)
		}
	}
	if slices.Sort(idle); len(idle) > 0 {
		return "", usage.Errorf("--build-arg %s: no ARG of the Dockerfile asks for it", strings.Join(idle, ", "))
	}
	return strings.Join(lines, "\n"), nil
}

// argument matches a name with an optional default, which may be quoted.
var argument = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|\s)([A-Za-z_][A-Za-z0-9_]*)(?:=("(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s"'\\]|\\.)*))?`)
})

func setArguments(line string, values map[string]string, asked map[string]bool) string {
	keyword, rest := "", line
	if m := regexp.MustCompile(`^\s*(?i:ARG)\s`).FindString(line); m != "" {
		keyword, rest = m, line[len(m):]
	}
	return keyword + argument().ReplaceAllStringFunc(rest, func(found string) string {
		m := argument().FindStringSubmatch(found)
		value, ok := values[m[2]]
		if !ok {
			return found
		}
		asked[m[2]] = true
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(value)
		return m[1] + m[2] + `="` + quoted + `"`
	})
}
