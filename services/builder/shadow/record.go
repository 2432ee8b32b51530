package shadow

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
)

// isMachineSpecific reports whether a field of a record depends on the machine that installed the
// package: where packages are stored, how they were linked, and what was requested. A
// channel is recorded by address or by name; the record's url identifies it.
func isMachineSpecific(field string) bool {
	switch field {
	case "extracted_package_dir", "package_tarball_full_path", "link", "requested_spec", "requested_specs", "channel", "auth", "arch", "platform", "installed_by":
		return true
	}
	return false
}

// shownBytes limits how much of a value is shown.
const shownBytes = 200

// record compares the conda-meta records of a package.
func (c *comparison) record(name string, direct, classic []byte) {
	var a, b map[string]any
	err := json.Unmarshal(direct, &a)
	if err2 := json.Unmarshal(classic, &b); err != nil || err2 != nil {
		c.add(name, "content", "JSON: "+errorText(err), "JSON: "+errorText(err2))
		return
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		x, y := normalized(field, a[field]), normalized(field, b[field])
		switch {
		case field == "paths_data":
			c.paths(name, files(a[field]), files(b[field]))
		case reflect.DeepEqual(x, y):
		case isMachineSpecific(field):
			c.expected(fields, name+": "+field)
		default:
			c.add(name, field, text(x), text(y))
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "well formed"
	}
	return err.Error()
}

// normalized normalizes a value for the comparison. Empty values become nil, and lists of
// files are sorted and have no compiled Python.
func normalized(field string, value any) any {
	switch v := value.(type) {
	case string:
		if v == "" {
			return nil
		}
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	case []any:
		if field == "files" {
			v = slices.DeleteFunc(slices.Clone(v), isBytecode)
			slices.SortFunc(v, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		}
		if len(v) == 0 {
			return nil
		}
		return v
	}
	return value
}

func isBytecode(file any) bool {
	name, _ := file.(string)
	return path.Ext(name) == ".pyc"
}

// files returns the files that a record lists, by name.
func files(data any) map[string]map[string]any {
	out := map[string]map[string]any{}
	list, _ := data.(map[string]any)
	all, _ := list["paths"].([]any)
	for _, p := range all {
		of, _ := p.(map[string]any)
		if name, _ := of["_path"].(string); !isBytecode(name) {
			out[name] = of
		}
	}
	return out
}

// paths compares the facts about files that both records contain, since not every installer
// writes every fact.
func (c *comparison) paths(record string, a, b map[string]map[string]any) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if (a[name] == nil) != (b[name] == nil) {
			c.add(record, "paths_data: "+name, text(a[name]["_path"]), text(b[name]["_path"]))
			continue
		}
		for _, fact := range []string{"path_type", "sha256", "sha256_in_prefix"} {
			if x, y := a[name][fact], b[name][fact]; x != nil && y != nil && !reflect.DeepEqual(x, y) {
				c.add(record, "paths_data: "+name+": "+fact, text(x), text(y))
			}
		}
	}
}

// text formats a value for the report.
func text(v any) string {
	if v == nil {
		return ""
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return fault.Clip(string(raw), shownBytes)
}
