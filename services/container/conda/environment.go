package conda

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"

	"slipway.dev/services/internal/fault"
)

// Environment is a Conda environment file, and what we need to know of it. The zero
// value is that of a request that names no packages.
type Environment struct {
	Channels []string
	// text is the file; only channels that were missing have been added.
	text string
	// name is the one it gives itself; "" for none.
	name string
	// items are the dependencies in order, those of pip after pip itself.
	items []MatchSpec
}

// Text is the environment file, as a user may see it; "" where there is none.
func (e Environment) Text() string { return e.text }

// document is what is read of an environment file.
type document struct {
	Name         string
	Channels     []string
	Dependencies []any
}

// readEnvironment reads an environment file and adds the channels that it lacks.
// Without any it gets the defaults. fault.Invalid, naming the field, for anything
// else.
func readEnvironment(field, text string, channels []string) (Environment, error) {
	bad := func(why string) (Environment, error) {
		return Environment{}, fault.Invalid.Newf("%s must be a Conda environment file: %s", field, why)
	}
	file, err := parseYAML(text)
	if err != nil {
		return bad(err.Error())
	}
	var doc document
	if err := yaml.NodeToValue(file.root, &doc); err != nil {
		return bad("name must be a string, channels and dependencies must be lists")
	}
	e := Environment{text: text, name: doc.Name, Channels: mergeChannels(doc.Channels, channels)}
	for i, c := range e.Channels {
		if err := checkChannel(c); err != nil {
			return e, fault.In(fmt.Sprintf("%s: channels[%d]", field, i), err)
		}
	}
	if e.items, err = dependencies(field, doc.Dependencies); err != nil {
		return e, err
	}
	if slices.Equal(e.Channels, doc.Channels) {
		return e, nil
	}
	if file.root.IsFlowStyle {
		return bad("write it in lines, without braces around the whole, so that channels can be added")
	}
	if e.text, err = file.withChannels(e.Channels); err != nil {
		return bad("write it more plainly, so that channels can be added")
	}
	return e, nil
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

// dependencies lists the items of an environment.
func dependencies(field string, list []any) ([]MatchSpec, error) {
	var items []MatchSpec
	for i, d := range list {
		switch d := d.(type) {
		case string:
			items = append(items, takeApart(d))
		case map[string]any:
			pip, err := pipList(d)
			if err != nil {
				return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a package, or pip: with a list", field, i)
			}
			items = append(items, pip...)
		default:
			return nil, fault.Invalid.Newf("%s: dependencies[%d] must be a string", field, i)
		}
	}
	if len(items) == 0 {
		return nil, fault.Invalid.Newf("%s has no dependencies", field)
	}
	return items, nil
}

var errPipList = fault.Invalid.Newf("pip must be a list of strings")

func pipList(m map[string]any) ([]MatchSpec, error) {
	list, ok := m["pip"].([]any)
	if !ok || len(m) != 1 {
		return nil, errPipList
	}
	items := make([]MatchSpec, 0, len(list))
	for _, p := range list {
		s, ok := p.(string)
		if !ok {
			return nil, errPipList
		}
		items = append(items, takeApart(s))
	}
	return items, nil
}
