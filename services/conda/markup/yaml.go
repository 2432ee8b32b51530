// Package markup reads and writes the YAML and TOML of files from users. It rejects files
// that would take long to parse.
package markup

import (
	"errors"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
)

// A YAMLFile is a parsed YAML document whose root is a mapping.
type YAMLFile struct {
	File *ast.File
	Root *ast.MappingNode
}

// ParseYAML parses a file. Its error explains to the author what the file must be.
func ParseYAML(text string) (YAMLFile, error) {
	if err := CheckText(text); err != nil {
		return YAMLFile{}, err
	}
	tokens := lexer.Tokenize(text)
	if err := checkTokens(tokens); err != nil {
		return YAMLFile{}, err
	}
	file, err := parser.Parse(tokens, parser.ParseComments)
	if err != nil {
		return YAMLFile{}, errors.New("it is not valid YAML")
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return YAMLFile{}, errors.New("it must be one YAML document")
	}
	root, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return YAMLFile{}, ErrAliases
	}
	return YAMLFile{file, root}, nil
}

// Members returns the values of a mapping by key; none for any other node.
func Members(n ast.Node) map[string]ast.Node {
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

// Keys returns the keys of a mapping in the file's order.
func Keys(n ast.Node) []string {
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

// Items returns the items of a list; none for any other node.
func Items(n ast.Node) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		return nil
	}
	return s.Values
}

// Scalar returns the text of a value as it was written, so that a version that looks like a
// number keeps its trailing 0. It returns "" for any other node and for null.
func Scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value
	case *ast.TagNode:
		return Scalar(n.Value)
	case *ast.AnchorNode:
		return Scalar(n.Value)
	}
	return ""
}

// Scalars returns the texts of a list.
func Scalars(n ast.Node) []string {
	var out []string
	for _, item := range Items(n) {
		out = append(out, Scalar(item))
	}
	return out
}
