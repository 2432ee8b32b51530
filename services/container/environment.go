package container

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"slipway.dev/services/internal/fault"
)

// environment is a Conda environment file, and what we need to know of it.
type environment struct {
	// text is the file; only channels that were missing have been added.
	text string
	// name is the one it gives itself; "" for none.
	name     string
	channels []string
	// items are the dependencies in order, those of pip after pip itself.
	items []string
}

// readEnvironment reads an environment file and adds the channels that it lacks.
// Without any it gets the defaults. fault.Invalid, naming the field, when it is
// no environment.
func readEnvironment(field, text string, channels []string) (environment, error) {
	bad := func(why string) (environment, error) {
		return environment{}, fault.Invalid.Newf("%s must be a Conda environment file: %s", field, why)
	}
	if why := unsafeYAML(text); why != "" {
		return bad(why)
	}
	file, err := parser.ParseBytes([]byte(text), parser.ParseComments)
	if err != nil {
		return bad("it is no YAML")
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return bad("it must be one YAML document")
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok || hasAliases(root) {
		return bad("it must be a mapping with dependencies, without aliases")
	}
	var doc struct {
		Name         string
		Channels     []string
		Dependencies []any
	}
	if err := yaml.NodeToValue(root, &doc); err != nil {
		return bad("name must be a text, channels and dependencies must be lists")
	}
	e := environment{text: text, name: doc.Name, channels: mergeChannels(doc.Channels, channels)}
	for i, c := range e.channels {
		if err := checkChannel(c); err != nil {
			return e, named(fmt.Sprintf("%s: channels[%d]", field, i), err)
		}
	}
	if e.items, err = dependencies(field, doc.Dependencies); err != nil {
		return e, err
	}
	if slices.Equal(e.channels, doc.Channels) {
		return e, nil
	}
	if e.text, err = withChannels(file, root, e.channels); err != nil || root.IsFlowStyle {
		return bad("write it in lines, without braces around the whole, so that channels can be added")
	}
	return e, nil
}

// unsafeYAML says what keeps us from parsing a text: deep nesting is refused
// before it costs time. "" when nothing does.
func unsafeYAML(text string) string {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case 0:
			return "it is no text"
		}
		if depth > 50 {
			return "it is nested too deeply"
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > 2000 {
			return "a line of it is longer than 2000 characters"
		}
	}
	return ""
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

// mergeChannels keeps the file's order; the request's come after it.
func mergeChannels(own, asked []string) []string {
	if len(own) == 0 && len(asked) == 0 {
		return defaultChannels()
	}
	all := slices.Clone(own)
	for _, c := range asked {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

func defaultChannels() []string { return []string{"conda-forge", "bioconda"} }

// dependencies lists the items of an environment.
func dependencies(field string, list []any) ([]string, error) {
	var items []string
	for i, d := range list {
		switch d := d.(type) {
		case string:
			items = append(items, d)
		case map[string]any:
			pip, err := pipList(d)
			if err != nil {
				return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a package, or pip: with a list", field, i)
			}
			items = append(items, pip...)
		default:
			return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a text", field, i)
		}
	}
	if len(items) == 0 {
		return nil, fault.Invalid.Newf("%s has no dependencies", field)
	}
	return items, nil
}

var errPipList = fault.Invalid.Newf("pip must be a list of texts")

func pipList(m map[string]any) ([]string, error) {
	list, ok := m["pip"].([]any)
	if !ok || len(m) != 1 {
		return nil, errPipList
	}
	items := make([]string, 0, len(list))
	for _, p := range list {
		s, ok := p.(string)
		if !ok {
			return nil, errPipList
		}
		items = append(items, s)
	}
	return items, nil
}

// withChannels sets the list in the file, and leaves the rest as it was written.
func withChannels(file *ast.File, root *ast.MappingNode, channels []string) (string, error) {
	var list strings.Builder
	writeList(&list, "channels", channels)
	part, err := parser.ParseBytes([]byte(list.String()), 0)
	if err != nil {
		return "", err
	}
	m, ok := part.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return "", errPipList
	}
	root.Merge(m)
	text := file.String()
	var doc struct {
		Channels     []string
		Dependencies []any
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || !slices.Equal(doc.Channels, channels) {
		return "", fmt.Errorf("the channels did not get in: %w", err)
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
