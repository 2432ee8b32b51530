package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// others are variables of the same prefix that are not settings: the command
// line's, the tests', and what names the file.
func others() []string {
	return []string{
		"SLIPWAY_CONFIG", "SLIPWAY_SERVER", "SLIPWAY_TOKEN", "SLIPWAY_WORKSPACE",
		"SLIPWAY_METRICS_USER", "SLIPWAY_METRICS_PASSWORD",
	}
}

// Misspelt looks for variables SLIPWAY_… that are no settings, in an environment as
// os.Environ has it. One that resembles a setting is an error that says which; the
// rest are answered: Kubernetes makes such variables for a Service of that name.
func Misspelt(environ []string) (unknown []string, err error) {
	known := map[string]bool{}
	for _, f := range Fields(&Config{}) {
		known[f.Env()] = true
	}
	names := slices.Sorted(maps.Keys(known))
	var problems []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "SLIPWAY_") || known[name] || slices.Contains(others(), name) ||
			strings.HasPrefix(name, "SLIPWAY_TEST_") || strings.HasPrefix(name, "SLIPWAY_STEP_") {
			continue
		}
		if hint := meant(name, names); hint != "" {
			problems = append(problems, fmt.Errorf("the variable %s is no setting%s", name, hint))
			continue
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown, errors.Join(problems...)
}

func keys(fields []Field) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.Key
	}
	return out
}

// meant is "; did you mean …?" with the name that one resembles; "" where it
// resembles none.
func meant(name string, names []string) string {
	best, least := "", 1+len(name)/5 // so many letters may be wrong
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d <= least {
			best, least = n, d-1
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// distance is how many letters must be changed, added or taken away to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
