package conda

import (
	"errors"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
)

// A yamlFile is a parsed YAML file with one mapping.
type yamlFile struct {
	file *ast.File
	root *ast.MappingNode
}

// parseYAML parses a file. Its error explains to the author what the file must be.
func parseYAML(text string) (yamlFile, error) {
	if err := checkText(text); err != nil {
		return yamlFile{}, err
	}
	tokens := lexer.Tokenize(text)
	if err := checkTokens(tokens); err != nil {
		return yamlFile{}, err
	}
	file, err := parser.Parse(tokens, parser.ParseComments)
	if err != nil {
		return yamlFile{}, errors.New("it is not valid YAML")
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return yamlFile{}, errors.New("it must be one YAML document")
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return yamlFile{}, errAliases
	}
	return yamlFile{file, root}, nil
}

// members returns the values of a mapping by key; none for any other node.
func members(n ast.Node) map[string]ast.Node {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return nil
	}
	out := make(map[string]ast.Node, len(m.Values))
	for _, v := range m.Values {
		out[keyOf(v)] = v.Value
	}
	return out
}

// keys returns the keys of a mapping in the file's order.
func keys(n ast.Node) []string {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		return nil
	}
	out := make([]string, 0, len(m.Values))
	for _, v := range m.Values {
		out = append(out, keyOf(v))
	}
	return out
}

func keyOf(v *ast.MappingValueNode) string { return v.Key.GetToken().Value }

// items returns the items of a list; none for any other node.
func items(n ast.Node) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	return s.Values
}

// scalar returns the text of a value as it was written, so that a version that looks like a
// number keeps its trailing 0. It returns "" for any other node and for null.
func scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	case *ast.TagNode:
		return scalar(n.Value)
	case *ast.AnchorNode:
		return scalar(n.Value)
	}
	return ""
}

// scalars returns the texts of a list.
func scalars(n ast.Node) []string {
	var out []string
	for _, item := range items(n) {
		out = append(out, scalar(item))
	}
	return out
}
