package envfile

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// featureKeys returns the keys of a feature. Those of the default feature are top-level keys.
func featureKeys() []string {
	return append(targetKeys(), "channels", "channel-priority", "platforms", "pypi-options", "solve-strategy", "system-requirements", "target")
}

// targetKeys returns the keys of a target of a feature.
func targetKeys() []string {
	return []string{"activation", "build-dependencies", "constraints", "dependencies", "host-dependencies", "pypi-dependencies", "tasks"}
}

// A pixiFeature is a feature of a manifest.
type pixiFeature struct {
	manifest *pixiManifest
	// name is "" for the default feature; path precedes its keys in messages.
	name, path string
	table      map[string]any
	// python is the specification of requires-python; "" for none.
	python string
	// pypi are names of packages of PyPI that a pyproject.toml adds.
	pypi []string
}

// A content is what a feature adds to an environment.
type content struct {
	// specs maps package names to specifications.
	specs     map[string]string
	variables map[string]string
	// pypi are the names of packages of PyPI.
	pypi []string
}

// feature returns a feature by name.
func (m *pixiManifest) feature(name string) (pixiFeature, error) {
	f := pixiFeature{manifest: m, name: name, path: m.prefix + "feature." + name + ".", table: tableOf(tableOf(m.top["feature"])[name])}
	for _, groups := range []map[string]any{tableOf(m.project["optional-dependencies"]), m.groups} {
		if list, ok := groups[name]; ok && name != "" {
			names, err := requirementNames(name, list)
			if err != nil {
				return f, err
			}
			f.pypi = append(f.pypi, names...)
			if f.table == nil {
				f.table = map[string]any{}
			}
		}
	}
	if f.table == nil || name == "" {
		return f, fault.Invalid.Newf("there is no table [%sfeature.%s]", m.prefix, fault.Quote(name))
	}
	if err := unknownKey(f.path, f.table, featureKeys()); err != nil {
		return f, err
	}
	return f, checkStrategy(f.path, f.table)
}

// defaultFeature returns the feature of the top-level tables.
func (m *pixiManifest) defaultFeature() (pixiFeature, error) {
	f := pixiFeature{manifest: m, path: m.prefix, table: m.top}
	if version, ok := m.project["requires-python"].(string); ok {
		asked, err := pixiSpec("project.requires-python", "python", version)
		if err != nil {
			return f, err
		}
		f.python = asked
	}
	if list, ok := m.project["dependencies"]; ok {
		var err error
		if f.pypi, err = requirementNames("project.dependencies", list); err != nil {
			return f, err
		}
	}
	return f, nil
}

// requirementName matches the name at the start of a pip requirement.
var requirementName = regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)`)

// requirementNames returns the names in a list of pip requirements.
func requirementNames(path string, list any) ([]string, error) {
	items, ok := list.([]any)
	if !ok {
		return nil, fault.Invalid.Newf("%s must be a list", fault.Quoted(path))
	}
	var out []string
	for i, item := range items {
		text, _ := item.(string)
		if group, ok := tableOf(item)["include-group"].(string); ok {
			text = group
		}
		m := requirementName.FindStringSubmatch(text)
		if m == nil {
			return nil, fault.Invalid.Newf("%s[%d] must be a package of PyPI", fault.Quote(path), i)
		}
		out = append(out, m[1])
	}
	return out, nil
}

// on returns the content of the feature on a platform. Targets override the entries of the
// feature that have the same name.
func (f pixiFeature) on(platform string) (content, error) {
	out, err := f.target(f.path, f.table)
	if err != nil {
		return out, err
	}
	if _, ok := out.specs["python"]; !ok && f.python != "" {
		out.specs["python"] = f.python
	}
	out.pypi = append(out.pypi, f.pypi...)
	targets := tableOf(f.table["target"])
	replaced := content{specs: map[string]string{}, variables: map[string]string{}}
	for _, selector := range slices.Sorted(maps.Keys(targets)) {
		if f.manifest.subdirs[selector] == platform {
			return out, unsupportedTable(f.path + "target." + fault.Quote(selector) + ", of a named platform,")
		}
		if selector != "unix" && selector != "linux" && selector != platform {
			continue
		}
		path, t := f.path+"target."+selector+".", tableOf(targets[selector])
		if err := unknownKey(path, t, targetKeys()); err != nil {
			return out, err
		}
		has, err := f.target(path, t)
		if err != nil {
			return out, err
		}
		if err := merge(replaced.specs, has.specs, path+"dependencies"); err != nil {
			return out, err
		}
		if err := merge(replaced.variables, has.variables, path+"activation.env"); err != nil {
			return out, err
		}
		out.pypi = append(out.pypi, has.pypi...)
	}
	maps.Copy(out.specs, replaced.specs)
	maps.Copy(out.variables, replaced.variables)
	return out, nil
}

// merge adds the entries of a target to those of other targets of the same platform. It
// rejects conflicts: pixi uses the last entry of the file, whose order the parser loses.
func merge(into, from map[string]string, path string) error {
	for name, value := range from {
		if other, ok := into[name]; ok && other != value {
			return fault.Invalid.Newf("%s has %s, and another target of the same platform has it otherwise: list it in one of them", path, fault.Quoted(name))
		}
		into[name] = value
	}
	return nil
}

// target reads the tables of a feature or of one of its targets.
func (f pixiFeature) target(path string, t map[string]any) (content, error) {
	out := content{specs: map[string]string{}, variables: map[string]string{}}
	if !isEmpty(t["constraints"]) {
		return out, fault.Invalid.Newf("%sconstraints is not supported: move the packages to dependencies, or give the pixi.lock", path)
	}
	for _, key := range []string{"dependencies", "host-dependencies", "build-dependencies"} { // the last one wins, as in pixi
		packages, err := tableAt(path, t, key)
		if err != nil {
			return out, err
		}
		if key != "dependencies" && len(packages) > 0 && f.manifest.buildsPackages() {
			return out, fault.Invalid.Newf("%s%s is not allowed with the preview feature pixi-build: move it to [%spackage.%s]", path, key, f.manifest.prefix, key)
		}
		for _, name := range slices.Sorted(maps.Keys(packages)) {
			asked, err := pixiSpec(path+key+"."+fault.Quote(name), name, packages[name])
			if err != nil {
				return out, err
			}
			out.specs[strings.ToLower(name)] = asked
		}
	}
	pypi, err := tableAt(path, t, "pypi-dependencies")
	if err != nil {
		return out, err
	}
	out.pypi = slices.Sorted(maps.Keys(pypi))
	return out, readActivation(path+"activation", t, out.variables)
}

// buildsPackages reports whether the preview feature pixi-build is enabled.
func (m *pixiManifest) buildsPackages() bool {
	list, _ := m.workspace["preview"].([]any)
	return m.workspace["preview"] == true || slices.Contains(list, any("pixi-build"))
}

// tableAt returns the table at a key; nil if it is missing.
func tableAt(path string, t map[string]any, key string) (map[string]any, error) {
	v, ok := t[key]
	of := tableOf(v)
	if ok && of == nil {
		return nil, fault.Invalid.Newf("%s%s must be a table", path, key)
	}
	return of, nil
}

// readActivation reads the variables of activation.env. It rejects scripts, which are files
// beside the manifest.
func readActivation(path string, t map[string]any, into map[string]string) error {
	activation, err := tableAt(strings.TrimSuffix(path, "activation"), t, "activation")
	if err != nil {
		return err
	}
	if err := unknownKey(path+".", activation, []string{"scripts", "env"}); err != nil {
		return err
	}
	if !isEmpty(activation["scripts"]) {
		return fault.Invalid.Newf("%s.scripts names files that the request does not have: set variables in %s.env, or leave it out", path, path)
	}
	env, err := tableAt(path+".", activation, "env")
	if err != nil {
		return err
	}
	for name, value := range env {
		text, ok := value.(string)
		switch {
		case !ok:
			return fault.Invalid.Newf("%s.env.%s must be a string", path, fault.Quote(name))
		case strings.Contains(text, "$"):
			return fault.Invalid.Newf("%s.env.%s refers to another variable with $, which an image cannot: write the value out", path, fault.Quote(name))
		}
		into[name] = text
	}
	return nil
}

var (
	// pixiName matches the name of a package.
	pixiName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	// pixiVersion matches a version or constraints, without blanks.
	pixiVersion = regexp.MustCompile(`^[A-Za-z0-9_.*+!<>=~,|()-]*$`)
	// plainVersion matches a version without operator, which pixi matches exactly.
	plainVersion = regexp.MustCompile(`^[A-Za-z0-9_.+!-]+$`)
	// anyPatch matches a version with .* at the end.
	anyPatch = regexp.MustCompile(`^[A-Za-z0-9_.+!-]+\.\*$`)
	// bounds matches constraints that may directly follow a package name.
	bounds = regexp.MustCompile(`^[<>=!~][^|()]*$`)
	// pixiOption matches the value of another key of a dependency.
	pixiOption = regexp.MustCompile(`^[A-Za-z0-9_.*+<>=!,|:/ ()-]+$`)
	// blanks matches blanks beside operators.
	blanks = regexp.MustCompile(`\s*([,|()])\s*|([<>=!~])\s+`)
)

// pixiSpec returns the specification of a dependency.
func pixiSpec(path, name string, value any) (string, error) {
	if !pixiName.MatchString(name) {
		return "", fault.Invalid.Newf("%s: %s is not the name of a package", path, fault.Quoted(name))
	}
	version, isText := value.(string)
	var channel string
	var options []string
	if t := tableOf(value); t != nil {
		var err error
		if version, channel, options, err = pixiOptions(path, t); err != nil {
			return "", err
		}
	} else if !isText {
		return "", fault.Invalid.Newf("%s must be a version such as \">=1.2,<2\", or a table such as {version = \">=1.2\", channel = \"conda-forge\"}", path)
	}
	version = strings.TrimSpace(blanks.ReplaceAllString(version, "$1$2"))
	if !pixiVersion.MatchString(version) {
		return "", fault.Invalid.Newf("%s: %s is not a version such as 1.2.* or >=1.2,<2", path, fault.Quoted(version))
	}
	asked := strings.ToLower(name)
	switch {
	case version == "" || version == "*":
	case plainVersion.MatchString(version):
		asked += "==" + version
	case anyPatch.MatchString(version):
		asked += "=" + version
	case bounds.MatchString(version):
		asked += version
	default:
		options = append([]string{`version="` + version + `"`}, options...)
	}
	if len(options) > 0 {
		asked += "[" + strings.Join(options, ",") + "]"
	}
	if channel != "" {
		asked = channel + "::" + asked
	}
	if m, err := spec.ParseMatchSpec(asked); err != nil {
		return "", fault.In(path, err)
	} else if m.Name != strings.ToLower(name) {
		return "", fault.Invalid.Newf("%s: %s is not the name of a package", path, fault.Quoted(name))
	}
	return asked, nil
}

// pixiOptions reads a dependency that is a table.
func pixiOptions(path string, t map[string]any) (version, channel string, options []string, err error) {
	keys := map[string]string{"build": "build", "build-number": "build_number", "subdir": "subdir", "file-name": "fn", "md5": "md5", "sha256": "sha256", "license": "license"}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		value, ok := t[key].(string)
		to, isOption := keys[key]
		switch {
		case slices.Contains([]string{"path", "git", "url"}, key):
			return "", "", nil, fault.Invalid.Newf("%s has %s: a package that no channel has is not supported; publish it in a channel", path, key)
		case key != "version" && key != "channel" && !isOption:
			return "", "", nil, fault.Invalid.Newf("%s: %s is not read: leave it out, or give the pixi.lock", path, fault.Quoted(key))
		case !ok:
			return "", "", nil, fault.Invalid.Newf("%s.%s must be a string", path, key)
		case key == "version":
			version = value
		case key == "channel":
			if err := spec.CheckChannel(value); err != nil {
				return "", "", nil, fault.In(path+".channel", err)
			}
			channel = value
		case !pixiOption.MatchString(value):
			return "", "", nil, fault.Invalid.Newf("%s.%s: %s has characters that are not allowed in a specification", path, key, fault.Quoted(value))
		default:
			options = append(options, fmt.Sprintf("%s=%q", to, value))
		}
	}
	return version, channel, options, nil
}
