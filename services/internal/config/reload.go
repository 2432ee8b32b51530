package config

import (
	"reflect"
	"slices"
)

// A Change is a setting whose value was read again and differs.
type Change struct {
	Key string
	// Old and New are the values; secret ones are redacted.
	Old, New string
}

// Reload returns the settings of a process that runs with c after it has read next. Settings
// that are marked with reload have their values from next, and all others from c. applied lists
// the changed settings that are marked, and restart the changed settings that take effect at
// the next start.
func (c Config) Reload(next Config) (settings Config, applied, restart []Change) {
	settings = c
	settings.Given = next.Given
	to, from := Fields(&settings), Fields(&next)
	for i, f := range from {
		if reflect.DeepEqual(f.value.Interface(), to[i].value.Interface()) {
			continue
		}
		change := Change{f.Key, to[i].String(), f.String()}
		if f.Reload {
			to[i].value.Set(f.value)
			applied = append(applied, change)
		} else {
			restart = append(restart, change)
		}
	}
	return settings, applied, restart
}

// reloaded returns the keys of the settings that are marked with reload.
func reloaded() (list []string) {
	for _, f := range Fields(&Config{}) {
		if f.Reload {
			list = append(list, f.Key)
		}
	}
	return slices.Sorted(slices.Values(list))
}
