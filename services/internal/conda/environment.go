package conda

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"

	"slipway.dev/services/internal/fault"
)

// Environment is an environment file (CEP 24), and what we need to know of it. Make
// it with ReadEnvironment or NewEnvironment; the zero value asks for nothing.
type Environment struct {
	// Name is the one it gives itself; "" for none.
	Name string
	// Channels are its own, best first.
	Channels []string
	// Requirements are what it asks for, in order.
	Requirements []Requirement

	// text is the file as it was written.
	text string
	// field is where it comes from, for messages.
	field string
}

// Requirement is one item of an environment.
type Requirement struct {
	// Text is a match specification, or a requirement of pip's, as written.
	Text string
	// Pip says that it is one of pip's.
	Pip bool
}

// Text is the environment file, as a user may see it; "" where there is none.
func (e Environment) Text() string { return e.text }

// Specs are the match specifications that it asks for, and pip what pip installs.
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

// document is what is read of an environment file.
type document struct {
	Name         string
	Channels     []string
	Dependencies []any
}

// ReadEnvironment reads an environment file. Its requirements are taken as they are
// written: who solves or installs them judges them. fault.Invalid, naming the field
// that the file came in, for what is none.
func ReadEnvironment(field, text string) (Environment, error) {
	e := Environment{text: text, field: field}
	file, err := parseYAML(text)
	if err != nil {
		return e, e.bad(err.Error())
	}
	var doc document
	if err := yaml.NodeToValue(file.root, &doc); err != nil {
		return e, e.bad("name must be a string, channels and dependencies must be lists")
	}
	e.Name, e.Channels = doc.Name, doc.Channels
	for i, c := range e.Channels {
		if err := CheckChannel(c); err != nil {
			return e, fault.In(fmt.Sprintf("%s: channels[%d]", field, i), err)
		}
	}
	e.Requirements, err = requirements(field, doc.Dependencies)
	return e, err
}

func (e Environment) bad(why string) error {
	return fault.Invalid.Newf("%s must be a Conda environment file: %s", e.field, why)
}

// requirements lists the items of an environment.
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

// WithChannels is the same environment with these channels, which must not be
// empty. The rest of its text stays as it was written. fault.Invalid, naming the
// field, for a file into which they cannot be put.
func (e Environment) WithChannels(channels []string) (Environment, error) {
	if slices.Equal(e.Channels, channels) {
		return e, nil
	}
	file, err := parseYAML(e.text)
	if err != nil {
		return e, e.bad(err.Error())
	}
	if file.root.IsFlowStyle {
		return e, e.bad("write it in lines, without braces around the whole, so that channels can be added")
	}
	text, err := file.withChannels(channels)
	if err != nil {
		return e, e.bad("write it more plainly, so that channels can be added")
	}
	e.Channels, e.text = channels, text
	return e, nil
}

// BasePackages are specifications of what every container gets that does not say
// otherwise: pipelines measure their tasks with ps.
func BasePackages() []string { return []string{"conda-forge::procps-ng"} }
