package envfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"slipway.dev/services/conda/markup"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// pixiTable matches a line with the header of a table of a pixi.toml or pyproject.toml.
var pixiTable = regexp.MustCompile(`^[ \t]*\[(workspace|project|dependencies|feature|environments|tool\.pixi)(\.[^\]\n]*)?\][ \t]*(#.*)?\r?$`)

// IsPixi reports whether a file is a pixi.toml or a pyproject.toml. It only looks for the
// headers of tables that such a file must have.
func IsPixi(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "[") && pixiTable.MatchString(line) {
			return true
		}
	}
	return false
}

// A pixiManifest is a parsed pixi.toml, or the tables of pixi in a pyproject.toml.
type pixiManifest struct {
	// prefix precedes the names of the tables in messages.
	prefix string
	// top is the top-level table.
	top map[string]any
	// workspace is the table workspace, or project in older manifests.
	workspace map[string]any
	// project is the table project of a pyproject.toml, and groups its dependency-groups.
	project, groups map[string]any
	// platforms are the subdirs of the workspace, and subdirs maps the names of its named
	// platforms to their subdirs.
	platforms []string
	subdirs   map[string]string
}

// ReadPixi reads an environment of a pixi.toml or pyproject.toml by name; "" selects
// "default". The result is valid for each of platforms, which are Conda subdirs such as
// linux-64. Its text is the environment file that the manifest is translated to. ReadPixi
// returns fault.Invalid with the field for a manifest that pixi would interpret differently.
func ReadPixi(field, text, environment string, platforms []string) (Environment, error) {
	m, err := parsePixi(text)
	if err != nil {
		return Environment{}, fault.In(field, err)
	}
	selected, err := m.environment(environment)
	if err != nil {
		return Environment{}, fault.In(field, err)
	}
	e, err := selected.read(platforms)
	if err != nil {
		return Environment{}, fault.In(field, err)
	}
	e.field = field
	return e, nil
}

// parsePixi parses a manifest and validates its top-level settings.
func parsePixi(text string) (pixiManifest, error) {
	var m pixiManifest
	if err := markup.CheckTOML(text); err != nil {
		return m, fault.Invalid.Newf("the file must be a pixi.toml or pyproject.toml: %s", err)
	}
	if err := toml.Unmarshal([]byte(text), &m.top); err != nil {
		line := 0
		if e := new(toml.DecodeError); errors.As(err, &e) {
			line, _ = e.Position()
		}
		return m, fault.Invalid.New(fmt.Sprintf("line %d is not valid TOML: %s", line, fault.Quote(strings.ToValidUTF8(err.Error(), "?"))), err)
	}
	m.workspace = tableOf(m.top["workspace"])
	if tool := tableOf(m.top["tool"]); tool["pixi"] != nil {
		m.prefix, m.project, m.groups = "tool.pixi.", tableOf(m.top["project"]), tableOf(m.top["dependency-groups"])
		m.top = tableOf(tool["pixi"])
		m.workspace = tableOf(m.top["workspace"])
	}
	if m.workspace == nil {
		m.workspace = tableOf(m.top["project"])
	}
	if err := m.check(); err != nil {
		return m, err
	}
	return m, m.readPlatforms()
}

// check rejects tables and settings that change environments and are not supported.
func (m *pixiManifest) check() error {
	if m.workspace["channels"] == nil || m.workspace["platforms"] == nil {
		return fault.Invalid.Newf("[%sworkspace] must list channels and platforms, e.g. channels = [\"conda-forge\"] and platforms = [\"linux-64\"]", m.prefix)
	}
	known := append(featureKeys(), "workspace", "project", "feature", "environments", "package", "dev", "exclude-newer", "pypi-exclude-newer", "tool", "$schema")
	if err := unknownKey(m.prefix, m.top, known); err != nil {
		return err
	}
	for _, key := range []string{"dev", "exclude-newer"} {
		if !isEmpty(m.top[key]) {
			return unsupportedTable(m.prefix + key)
		}
	}
	if !isEmpty(m.workspace["exclude-newer"]) {
		return unsupportedTable(m.prefix + "workspace.exclude-newer")
	}
	return checkStrategy(m.prefix+"workspace.", m.workspace)
}

// checkStrategy rejects solver settings other than the defaults of pixi.
func checkStrategy(path string, t map[string]any) error {
	for key, usual := range map[string]string{"channel-priority": "strict", "solve-strategy": "highest"} {
		if v, ok := t[key]; ok && v != usual {
			return fault.Invalid.Newf("%s%s may only be %q, the default: leave it out, or give the pixi.lock", path, key, usual)
		}
	}
	return nil
}

// readPlatforms reads workspace.platforms.
func (m *pixiManifest) readPlatforms() error {
	list, ok := m.workspace["platforms"].([]any)
	if !ok {
		return fault.Invalid.Newf("%sworkspace.platforms must be a list such as [\"linux-64\"]", m.prefix)
	}
	m.subdirs = map[string]string{}
	for i, item := range list {
		name, _ := item.(string)
		subdir := name
		if t := tableOf(item); t != nil {
			name, _ = t["name"].(string)
			if subdir, _ = t["platform"].(string); subdir == "" {
				subdir = name
			}
		}
		if !spec.IsPlatform(subdir) {
			return fault.Invalid.Newf("%sworkspace.platforms[%d] is no platform, such as linux-64", m.prefix, i)
		}
		if name != "" && name != subdir {
			m.subdirs[name] = subdir
		}
		if !slices.Contains(m.platforms, subdir) {
			m.platforms = append(m.platforms, subdir)
		}
	}
	return nil
}

// tableOf returns a value that is a table; nil for anything else.
func tableOf(v any) map[string]any {
	t, _ := v.(map[string]any)
	return t
}

// isEmpty reports whether a value is missing, or an empty table, list or string.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

// unknownKey rejects keys that are not in known, which may change what pixi installs.
func unknownKey(path string, t map[string]any, known []string) error {
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if !slices.Contains(known, key) {
			return fault.Invalid.Newf("%s is not read: leave it out, or give the pixi.lock", fault.Quoted(path+key))
		}
	}
	return nil
}

func unsupportedTable(path string) error {
	return fault.Invalid.Newf("%s is not supported: leave it out, or give the pixi.lock", path)
}
