package envfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"slipway.dev/services/conda/markup"
)

// New creates an environment file. All its strings must be printable ASCII.
func New(channels []string, all []Requirement) Environment {
	e := Environment{Channels: channels, Requirements: all}
	specs, pip := e.Specs()
	var out strings.Builder
	writeList(&out, "channels", channels)
	writeList(&out, "dependencies", specs)
	if len(pip) > 0 {
		out.WriteString("  - pip:\n")
		for _, p := range pip {
			fmt.Fprintf(&out, "      - %q\n", p)
		}
	}
	e.text = out.String()
	return e
}

// withChannels returns the file with another list of channels and otherwise unchanged.
func withChannels(f markup.YAMLFile, channels []string) (string, error) {
	var list strings.Builder
	writeList(&list, "channels", channels)
	part, err := parser.ParseBytes([]byte(list.String()), 0)
	if err != nil {
		return "", err
	}
	m, ok := part.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return "", markup.ErrAliases
	}
	f.Root.Merge(m)
	text := f.File.String()
	var doc document
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	if !slices.Equal(doc.Channels, channels) {
		return "", errors.New("the channels could not be replaced")
	}
	return text, nil
}

// writeList writes a YAML list of printable ASCII strings. Each is in double quotes, so
// that YAML does not interpret it.
func writeList(out *strings.Builder, key string, items []string) {
	out.WriteString(key + ":\n")
	for _, item := range items {
		fmt.Fprintf(out, "  - %q\n", item)
	}
}
