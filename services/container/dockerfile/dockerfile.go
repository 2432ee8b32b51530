// Package dockerfile says how large a Dockerfile gets when an engine expands it. A
// few hundred bytes of variables that name each other stand for gigabytes, in the
// engine as in whoever reads the file before it: Check refuses such files before
// anything is expanded. It reads with BuildKit's own parser, holds no state and does no
// I/O. Truth: frontend/dockerfile of the BuildKit in go.mod, and the table
// internal/limits.
package dockerfile

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Check reads a Dockerfile and computes how long its texts can get at most, without
// making them. fault.Invalid, naming the line, for a file that is malformed, has too
// many parts, or grows beyond limits.DockerfileGrowth in one instruction or
// limits.DockerfileExpanded in all.
func Check(text string) error {
	if len(text) > limits.Dockerfile {
		return fault.Invalid.Newf("the Dockerfile is %d bytes long; %d are the most", len(text), limits.Dockerfile)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fault.Invalid.Newf("the Dockerfile must be text in UTF-8")
	}
	if n := words(text); n > limits.DockerfileWords {
		return fault.Invalid.Newf("the Dockerfile has %d words; %d are the most", n, limits.DockerfileWords)
	}
	file, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return malformed(err)
	}
	stages, meta, err := instructions.Parse(file.AST, nil)
	if err != nil {
		return malformed(err)
	}
	if len(stages) > limits.DockerfileStages {
		return fault.Invalid.Newf("the Dockerfile has %d stages; %d are the most", len(stages), limits.DockerfileStages)
	}
	return newGrowth(file.EscapeToken).file(stages, meta)
}

// words counts what the parser makes a node of: words, and members of lists. What
// stands in scripts and here-documents counts too, though it need not.
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

// malformed keeps the line where the library tells it.
func malformed(err error) error {
	// The library quotes what it could not read, however long it is.
	public := "the Dockerfile cannot be read: " + clip(err.Error())
	var at *parser.LocationError
	if errors.As(err, &at) && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
		public = fmt.Sprintf("line %d: %s", at.Locations[0][0].Start.Line, public)
	}
	return fault.Invalid.New(public, err)
}

func clip(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= 200 {
		return s
	}
	return strings.ToValidUTF8(s[:200], "") + "…"
}
