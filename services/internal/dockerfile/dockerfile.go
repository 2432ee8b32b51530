// Package dockerfile parses Dockerfiles with BuildKit's own parser and lexer, so that it reads
// Dockerfiles as the engine does: which images a build needs, and how large the file becomes
// when it is expanded. A few hundred bytes of variables that refer to each other can expand to
// gigabytes, so Read bounds the growth before anything is expanded. The package builds nothing,
// holds no state and does no I/O. The rules are those of frontend/dockerfile of the BuildKit in
// go.mod, and the limits those of internal/limits.
package dockerfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/moby/buildkit/frontend/dockerfile/command"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// File is a Dockerfile within the limits. Create it with Read; it is safe for concurrent
// use.
type File struct {
	// escape is the escape character, `\` or a backtick.
	escape rune
	// args are the ARGs before the first FROM.
	args   []instructions.ArgCommand
	stages []instructions.Stage
	// expanded is the maximum length after expansion, without the effects of base images.
	expanded int
}

// Read parses a Dockerfile and computes how long its texts can become, without expanding
// them. It returns fault.Invalid, with the line, for a file that is malformed, has too many
// parts, or grows beyond limits.DockerfileGrowth in one instruction or
// limits.DockerfileExpanded in all.
func Read(text string) (*File, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, malformed(err)
	}
	if err := checkFirst(parsed.AST); err != nil {
		return nil, err
	}
	f := &File{escape: parsed.EscapeToken}
	if f.stages, f.args, err = instructions.Parse(parsed.AST, nil); err != nil {
		return nil, malformed(err)
	}
	switch n := len(f.stages); {
	case n == 0:
		return nil, fault.Invalid.Newf("the Dockerfile has no FROM")
	case n > limits.DockerfileStages:
		return nil, fault.Invalid.Newf("the Dockerfile has %d stages; the maximum is %d", n, limits.DockerfileStages)
	}
	g := newGrowth(f.escape)
	err = g.file(f.stages, f.args)
	f.expanded = g.spent
	return f, err
}

// checkText limits the input of the parser.
func checkText(text string) error {
	if len(text) > limits.Dockerfile {
		return fault.Invalid.Newf("the Dockerfile is %d bytes long; the maximum is %d", len(text), limits.Dockerfile)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fault.Invalid.Newf("the Dockerfile must be text in UTF-8")
	}
	if n := words(text); n > limits.DockerfileWords {
		return fault.Invalid.Newf("the Dockerfile has %d words; the maximum is %d", n, limits.DockerfileWords)
	}
	return nil
}

// words counts the nodes that the parser creates: words, and members of lists. Scripts and
// here-documents are included, although the parser does not split them.
func words(text string) int {
	n, between := 0, true
	for _, r := range text {
		is := unicode.IsSpace(r) || r == ','
		if between && !is || r == ',' {
			n++
		}
		between = is
	}
	return n
}

// checkFirst allows only ARG before the first FROM. BuildKit does so as well, with less
// helpful errors.
func checkFirst(root *parser.Node) error {
	for _, n := range root.Children {
		switch strings.ToLower(n.Value) {
		case command.Arg:
			continue
		case command.From:
			return nil
		}
		if _, err := instructions.ParseInstruction(n); err != nil {
			return malformed(err)
		}
		return atLine(n.Location(), fault.Invalid.Newf("%s must come after FROM", strings.ToUpper(n.Value)))
	}
	return nil
}

// malformed returns BuildKit's parse error with its line.
func malformed(err error) error {
	var located *parser.LocationError
	if !errors.As(err, &located) || len(located.Locations) == 0 || isWhole(located.Locations[0]) {
		return fault.Invalid.New("the Dockerfile cannot be read: "+fault.Quote(err.Error()), err)
	}
	return atLine(located.Locations[0], unreadable(located))
}

// isWhole reports whether an error is about the file and not about a line.
func isWhole(at []parser.Range) bool { return len(at) == 0 || at[0].Start.Line < 1 }

// LineOf returns the line in an error of this package, or 0, and the message without the line.
func LineOf(err error) (line int, rest string) {
	e, ok := fault.As(err)
	if !ok {
		return 0, ""
	}
	place, rest, found := strings.Cut(e.Public, ": ")
	number, isLine := strings.CutPrefix(place, "line ")
	line, parseErr := strconv.Atoi(number)
	if !found || !isLine || parseErr != nil {
		return 0, e.Public
	}
	return line, rest
}

// unreadable shortens BuildKit's error, which quotes its whole input.
func unreadable(err error) error { return fault.Invalid.New(fault.Quote(err.Error()), err) }

// atLine adds the line to an error, unless it has one already.
func atLine(at []parser.Range, err error) error {
	e, ok := fault.As(err)
	if !ok || isWhole(at) || strings.HasPrefix(e.Public, "line ") {
		return err
	}
	return fault.In(fmt.Sprintf("line %d", at[0].Start.Line), e)
}
