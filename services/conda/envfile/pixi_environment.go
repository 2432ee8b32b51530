package envfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A pixiEnvironment is an environment of a manifest. The default feature is the last one.
type pixiEnvironment struct {
	manifest *pixiManifest
	name     string
	features []pixiFeature
}

// DefaultName is the name of the environment that every pixi.toml and pixi.lock has.
const DefaultName = "default"

// environment returns an environment by name.
func (m *pixiManifest) environment(name string) (pixiEnvironment, error) {
	if name == "" {
		name = DefaultName
	}
	e := pixiEnvironment{manifest: m, name: name}
	all := tableOf(m.top["environments"])
	given, ok := all[name]
	if !ok && name != DefaultName {
		names := slices.Sorted(maps.Keys(all))
		if !slices.Contains(names, DefaultName) {
			names = append([]string{DefaultName}, names...)
		}
		return e, fault.Invalid.Newf("the manifest has no environment %s; it has %s", fault.Quoted(name), fault.Quote(strings.Join(names, ", ")))
	}
	path, isWithoutDefault := m.prefix+"environments."+name, false
	features, isList := given.([]any)
	if t := tableOf(given); t != nil {
		if err := unknownKey(path+".", t, []string{"features", "solve-group", "no-default-feature"}); err != nil {
			return e, err
		}
		features, isList = t["features"].([]any)
		isList = isList || t["features"] == nil
		isWithoutDefault = t["no-default-feature"] == true
	}
	if ok && !isList {
		return e, fault.Invalid.Newf("%s must be a list of features", path)
	}
	for i, item := range features {
		feature, _ := item.(string)
		if slices.ContainsFunc(e.features, func(f pixiFeature) bool { return f.name == feature }) {
			return e, fault.Invalid.Newf("%s lists the feature %s twice", path, fault.Quoted(feature))
		}
		f, err := m.feature(feature)
		if err != nil {
			return e, fault.In(fmt.Sprintf("%s: features[%d]", path, i), err)
		}
		e.features = append(e.features, f)
	}
	if isWithoutDefault {
		return e, nil
	}
	f, err := m.defaultFeature()
	e.features = append(e.features, f)
	return e, err
}

// read returns the environment for platforms. All must have the same packages, because a
// request has one list of packages for all of its platforms.
func (e pixiEnvironment) read(platforms []string) (Environment, error) {
	var out Environment
	channels, err := e.channels()
	if err != nil {
		return out, err
	}
	listed, err := e.platforms()
	if err != nil {
		return out, err
	}
	for i, p := range platforms {
		if !slices.Contains(listed, p) {
			return out, fault.Invalid.Newf("the environment %s is not for %s; its platforms are %s: add it to platforms of [%sworkspace], or request another platform",
				fault.Quoted(e.name), fault.Quote(p), fault.Quote(strings.Join(listed, ", ")), e.manifest.prefix)
		}
		specs, variables, err := e.on(p)
		if err != nil {
			return out, err
		}
		var all []Requirement
		for _, text := range specs {
			all = append(all, Requirement{Text: text})
		}
		one := New(channels, all)
		one.Variables = variables
		if i > 0 && !reflect.DeepEqual(one, out) {
			return out, fault.Invalid.Newf("the packages or variables for %s differ from those for %s: request one platform at a time", p, platforms[0])
		}
		out = one
	}
	if len(out.Requirements) == 0 {
		return out, fault.Invalid.Newf("the environment %s has no dependencies", fault.Quoted(e.name))
	}
	out.text += variablesText(out.Variables)
	return out, nil
}

// on returns the sorted specifications and the variables of the environment on a platform.
func (e pixiEnvironment) on(platform string) (specs []string, variables map[string]string, err error) {
	set := map[string]string{}
	var pypi []string
	for _, f := range e.features {
		has, err := f.on(platform)
		if err != nil {
			return nil, nil, err
		}
		specs = slices.AppendSeq(specs, maps.Values(has.specs))
		for name, value := range has.variables {
			if other, ok := set[name]; ok && other != value {
				return nil, nil, fault.Invalid.Newf("two features of the environment %s set %s to different values", fault.Quoted(e.name), fault.Quoted(name))
			}
			set[name] = value
		}
		pypi = append(pypi, has.pypi...)
	}
	slices.Sort(specs)
	specs = slices.Compact(specs)
	if len(specs) > limits.CondaSpecs {
		return nil, nil, fault.Invalid.Newf("the environment %s has %d packages, and may have %d", fault.Quoted(e.name), len(specs), limits.CondaSpecs)
	}
	if err := spec.CheckVariables(set); err != nil {
		return nil, nil, fault.In(e.manifest.prefix+"activation.env", err)
	}
	if len(set) == 0 {
		set = nil
	}
	return specs, set, checkPyPI(e.manifest.prefix, pypi, specs)
}

// checkPyPI rejects packages of PyPI, except those that are also Conda packages of the
// environment, which pixi does not install from PyPI.
func checkPyPI(prefix string, pypi, specs []string) error {
	has := map[string]bool{}
	for _, text := range specs {
		if m, err := spec.ParseMatchSpec(text); err == nil {
			has[spec.NormalName(m.Name)] = true
		}
	}
	var names []string
	for _, name := range pypi {
		if n := spec.NormalName(name); !has[n] {
			has[n] = true // list each name once
			names = append(names, fault.Quoted(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fault.Invalid.Newf("the environment has %d packages of PyPI (%s), which are not read from a manifest: list the Conda packages of these in %sdependencies, or install them with pip in packages.condaOpts.commands",
		len(names), strings.Join(names[:min(len(names), 5)], ", "), prefix)
}

// channels returns the channels of the features, highest priority first. A feature without
// channels has those of the workspace.
func (e pixiEnvironment) channels() ([]string, error) {
	type ranked struct {
		name     string
		priority int64
	}
	var all []ranked
	for _, f := range e.features {
		list, path := f.table["channels"], f.path+"channels"
		if list == nil || f.name == "" {
			list, path = e.manifest.workspace["channels"], e.manifest.prefix+"workspace.channels"
		}
		items, ok := list.([]any)
		if !ok {
			return nil, fault.Invalid.Newf("%s must be a list such as [\"conda-forge\"]", path)
		}
		for i, item := range items {
			var c ranked
			c.name, ok = item.(string)
			if t := tableOf(item); t != nil {
				c.name, ok = t["channel"].(string)
				c.priority, _ = t["priority"].(int64)
			}
			if !ok {
				return nil, fault.Invalid.Newf("%s[%d] must be a channel", path, i)
			}
			if err := spec.CheckChannel(c.name); err != nil {
				return nil, fault.In(fmt.Sprintf("%s[%d]", path, i), err)
			}
			if !slices.ContainsFunc(all, func(o ranked) bool { return o.name == c.name }) {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(b.priority, a.priority) })
	var out []string
	for _, c := range all {
		out = append(out, c.name)
	}
	if len(out) == 0 {
		return nil, fault.Invalid.Newf("the environment %s has no channels", fault.Quoted(e.name))
	}
	return out, nil
}

// platforms returns the subdirs that are listed by the workspace and by each feature that has
// a list of platforms.
func (e pixiEnvironment) platforms() ([]string, error) {
	out := slices.Clone(e.manifest.platforms)
	for _, f := range e.features {
		if f.name == "" || f.table["platforms"] == nil {
			continue
		}
		list, ok := f.table["platforms"].([]any)
		if !ok {
			return nil, fault.Invalid.Newf("%splatforms must be a list such as [\"linux-64\"]", f.path)
		}
		var has []string
		for i, item := range list {
			name, _ := item.(string)
			if subdir, ok := e.manifest.subdirs[name]; ok {
				name = subdir
			}
			if !spec.IsPlatform(name) {
				return nil, fault.Invalid.Newf("%splatforms[%d] is neither a platform such as linux-64 nor the name of one in [%sworkspace]", f.path, i, e.manifest.prefix)
			}
			has = append(has, name)
		}
		out = slices.DeleteFunc(out, func(p string) bool { return !slices.Contains(has, p) })
	}
	return out, nil
}

// variablesText returns the section variables of an environment file.
func variablesText(all map[string]string) string {
	if len(all) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString("variables:\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "  %s: %q\n", name, all[name])
	}
	return out.String()
}
