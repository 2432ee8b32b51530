package conda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yamlFile is a parsed YAML file of one mapping.
type yamlFile struct {
	file *ast.File
	root *ast.MappingNode
}

var errNoMapping = errors.New("it must be a mapping with dependencies, without aliases")

// parseYAML says in its error what the file must be, for its author.
func parseYAML(text string) (yamlFile, error) {
	if err := checkYAML(text); err != nil {
		return yamlFile{}, err
	}
	file, err := parser.ParseBytes([]byte(text), parser.ParseComments)
	if err != nil {
		return yamlFile{}, errors.New("it is not valid YAML")
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return yamlFile{}, errors.New("it must be one YAML document")
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok || hasAliases(root) {
		return yamlFile{}, errNoMapping
	}
	return yamlFile{file, root}, nil
}

// checkYAML refuses what would cost time to parse, such as deep nesting.
func checkYAML(text string) error {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case 0:
			return errors.New("it is not text")
		}
		if depth > 50 {
			return errors.New("it is nested too deeply")
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > 2000 {
			return errors.New("a line of it is longer than 2000 characters")
		}
	}
	return nil
}

// aliasFinder looks for aliases: a few lines of them stand for gigabytes.
type aliasFinder struct{ found bool }

// Visit is called for each node.
func (f *aliasFinder) Visit(n ast.Node) ast.Visitor {
	f.found = f.found || n.Type() == ast.AliasType
	return f
}

func hasAliases(n ast.Node) bool {
	f := &aliasFinder{}
	ast.Walk(f, n)
	return f.found
}

// withChannels sets the list in the file, and leaves the rest as it was written.
func (f yamlFile) withChannels(channels []string) (string, error) {
	var list strings.Builder
	writeList(&list, "channels", channels)
	part, err := parser.ParseBytes([]byte(list.String()), 0)
	if err != nil {
		return "", err
	}
	m, ok := part.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return "", errNoMapping
	}
	f.root.Merge(m)
	text := f.file.String()
	var doc document
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	if !slices.Equal(doc.Channels, channels) {
		return "", errors.New("the channels did not get in")
	}
	return text, nil
}

// writeList writes a YAML list of printable ASCII texts, each in double quotes, so
// that none means anything to YAML.
func writeList(out *strings.Builder, key string, items []string) {
	out.WriteString(key + ":\n")
	for _, item := range items {
		fmt.Fprintf(out, "  - %q\n", item)
	}
}
