// Package envfile reads and writes files that describe an environment to be solved:
// environment.yml, pixi.toml and pyproject.toml. It does no I/O.
package envfile

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// An Environment is an environment file (CEP 24). Use Read or New to
// create it; the zero value has no requirements.
type Environment struct {
	// Name is the name of the environment; "" for none.
	Name string
	// Channels lists its channels by priority, highest first.
	Channels []string
	// Variables maps the names of environment variables to their values; nil for none.
	Variables map[string]string
	// Requirements lists its dependencies, in order.
	Requirements []Requirement

	// text is the file as it was written.
	text string
	// field is the request field that it comes from, for messages.
	field string
}

// A Requirement is one dependency of an environment.
type Requirement struct {
	// Text is a match specification or a pip requirement, as written.
	Text string
	// Pip reports whether it is a pip requirement.
	Pip bool
}

// Text returns the environment file as users may see it; "" for the zero value.
func (e Environment) Text() string { return e.text }

// Specs returns the match specifications and the pip requirements.
func (e Environment) Specs() (specs, pip []string) {
	for _, r := range e.Requirements {
		if r.Pip {
			pip = append(pip, r.Text)
		} else {
			specs = append(specs, r.Text)
		}
	}
	return specs, pip
}

// A document holds the parts of an environment file that are read.
type document struct {
	Name         string
	Channels     []string
	Dependencies []any
}

// Read parses an environment file. It does not validate the requirements. It
// returns fault.Invalid, with the name of the field that the file came from, for any other
// file.
func Read(field, text string) (Environment, error) {
	e := Environment{text: text, field: field}
	file, err := markup.ParseYAML(text)
	if err != nil {
		return e, e.bad(err.Error())
	}
	var doc document
	if err := yaml.NodeToValue(file.Root, &doc); err != nil {
		return e, e.bad("name must be a string, channels and dependencies must be lists")
	}
	e.Name, e.Channels = doc.Name, doc.Channels
	for i, c := range e.Channels {
		if err := spec.CheckChannel(c); err != nil {
			return e, fault.In(fmt.Sprintf("%s: channels[%d]", field, i), err)
		}
	}
	if e.Variables, err = readVariables(markup.Members(file.Root)["variables"]); err != nil {
		return e, fault.In(field+": variables", err)
	}
	e.Requirements, err = requirements(field, doc.Dependencies)
	return e, err
}

func (e Environment) bad(why string) error {
	return fault.Invalid.Newf("%s must be a Conda environment file: %s", e.field, why)
}

// requirements returns the dependencies of an environment.
func requirements(field string, list []any) ([]Requirement, error) {
	var all []Requirement
	for i, d := range list {
		switch d := d.(type) {
		case string:
			all = append(all, Requirement{Text: d})
		case map[string]any:
			pip, err := pipList(d)
			if err != nil {
				return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a package, or pip: with a list", field, i)
			}
			all = append(all, pip...)
		default:
			return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a string", field, i)
		}
	}
	if len(all) == 0 {
		return nil, fault.Invalid.Newf("%s has no dependencies", field)
	}
	return all, nil
}

var errPipList = fault.Invalid.Newf("pip must be a list of strings")

func pipList(m map[string]any) ([]Requirement, error) {
	list, ok := m["pip"].([]any)
	if !ok || len(m) != 1 {
		return nil, errPipList
	}
	pip := make([]Requirement, 0, len(list))
	for _, p := range list {
		s, ok := p.(string)
		if !ok {
			return nil, errPipList
		}
		pip = append(pip, Requirement{Text: s, Pip: true})
	}
	return pip, nil
}

// WithChannels returns the environment with other channels, which must not be empty. The
// rest of its text is unchanged. It returns fault.Invalid, with the name of the field, if
// the channels of the file cannot be replaced.
func (e Environment) WithChannels(channels []string) (Environment, error) {
	if slices.Equal(e.Channels, channels) {
		return e, nil
	}
	file, err := markup.ParseYAML(e.text)
	if err != nil {
		return e, e.bad(err.Error())
	}
	if file.Root.IsFlowStyle {
		return e, e.bad("write it in lines, without braces around the whole, so that channels can be added")
	}
	text, err := withChannels(file, channels)
	if err != nil {
		return e, e.bad("write it more plainly, so that channels can be added")
	}
	e.Channels, e.text = channels, text
	return e, nil
}

// BasePackages returns the specifications of the packages that containers get by default.
// procps-ng has ps, with which pipelines measure their tasks.
func BasePackages() []string { return []string{"conda-forge::procps-ng"} }

// readVariables reads a mapping of names to strings. It returns nil if n is nil or null. Numbers
// and booleans are read as strings, spelled as in the file. It returns fault.Invalid, without a
// field name, for any other node.
func readVariables(n ast.Node) (map[string]string, error) {
	switch n.(type) {
	case nil, *ast.NullNode:
		return nil, nil
	case *ast.MappingNode:
	default:
		return nil, fault.Invalid.Newf("it must be a mapping of names to values, e.g. MY_DATA: /data")
	}
	out := map[string]string{}
	for name, value := range markup.Members(n) {
		switch value.(type) {
		case *ast.MappingNode, *ast.SequenceNode:
			return nil, fault.Invalid.Newf("%s must be one value", fault.Quoted(name))
		}
		out[name] = markup.Scalar(value)
	}
	return out, spec.CheckVariables(out)
}
