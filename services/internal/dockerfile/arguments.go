package dockerfile

import (
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
)

// arguments are the variables that FROM may use: those of the platform, and the ARGs before
// the first FROM. It implements shell.EnvGetter.
type arguments struct {
	values map[string]string
	// unknown holds ARGs whose value depends on a variable that only the engine knows.
	unknown map[string]bool
	// missed is the name of the last variable that was looked up and that only the engine knows.
	missed string
}

func newArguments(p ocispec.Platform) *arguments {
	return &arguments{
		values:  map[string]string{"TARGETOS": p.OS, "TARGETARCH": p.Architecture},
		unknown: map[string]bool{},
	}
}

// Get looks up a variable.
func (a *arguments) Get(name string) (string, bool) {
	if a.unknown[name] || isEngines(name) {
		a.missed = name
		return "", false
	}
	v, ok := a.values[name]
	return v, ok
}

// Keys is only used for the engine's suggestions.
func (a *arguments) Keys() []string { return nil }

// declare sets the variables of an ARG. Each value may use the variables before it.
func (a *arguments) declare(lex *shell.Lex, c *instructions.ArgCommand) error {
	for _, arg := range c.Args {
		if arg.Value == nil || isEngines(arg.Key) {
			continue
		}
		v, err := a.process(lex, *arg.Value)
		if a.unknown[arg.Key] = a.missed != ""; a.unknown[arg.Key] {
			continue
		}
		if err != nil {
			return err
		}
		a.values[arg.Key] = v
	}
	return nil
}

// expand expands the variables of a word and removes its quotes.
func (a *arguments) expand(lex *shell.Lex, word string) (string, error) {
	v, err := a.process(lex, word)
	if a.missed != "" {
		return "", fault.Invalid.Newf("the value of %s is not known; use the full image name in FROM", fault.Quote(a.missed))
	}
	return v, err
}

func (a *arguments) process(lex *shell.Lex, word string) (string, error) {
	a.missed = ""
	v, _, err := lex.ProcessWord(word, a)
	if err != nil {
		return "", unreadable(err)
	}
	return v, nil
}

// isEngines reports whether the engine sets a variable, from the platforms of the build or from
// the worker's settings.
func isEngines(name string) bool {
	switch name {
	case "BUILDPLATFORM", "BUILDOS", "BUILDOSVERSION", "BUILDARCH", "BUILDVARIANT",
		"TARGETPLATFORM", "TARGETOSVERSION", "TARGETVARIANT", "TARGETSTAGE", "SOURCE_DATE_EPOCH":
		return true
	}
	switch strings.ToUpper(name) {
	case "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY":
		return true
	}
	return strings.HasPrefix(name, "BUILDKIT_")
}
