package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway.dev/services/internal/spelling"
)

// OtherVariables lists variables with the same prefix that are not settings: those of the command
// line, and the one for the file.
func OtherVariables() []string {
	return []string{
		"SLIPWAY_CONFIG", "SLIPWAY_SERVER", "SLIPWAY_CONTEXT", "SLIPWAY_TOKEN", "SLIPWAY_WORKSPACE", "SLIPWAY_PAGER",
		"SLIPWAY_METRICS_USER", "SLIPWAY_METRICS_PASSWORD",
		"SLIPWAY_CACHE", "SLIPWAY_CACHE_LOWER", "SLIPWAY_AGENT_DIR", "SLIPWAY_VERIFY", "SLIPWAY_KEY",
	}
}

// Misspelt checks the SLIPWAY_… variables of an environment in the form of os.Environ. It
// returns an error with a suggestion for a variable that resembles a setting, and lists other
// unknown variables: Kubernetes creates such variables for a Service with the name slipway.
func Misspelt(environ []string) (unknown []string, err error) {
	known := map[string]bool{}
	for _, f := range Fields(&Config{}) {
		known[f.Env()] = true
	}
	names := slices.Sorted(maps.Keys(known))
	var problems []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "SLIPWAY_") || known[name] || slices.Contains(OtherVariables(), name) ||
			strings.HasPrefix(name, "SLIPWAY_TEST_") || strings.HasPrefix(name, "SLIPWAY_STEP_") {
			continue
		}
		if hint := suggestion(name, names); hint != "" {
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

// suggestion returns "; did you mean …?" with the most similar name, or "" if none is similar.
func suggestion(name string, names []string) string {
	best, least := "", 1+len(name)/5 // maximum edit distance
	for _, n := range names {
		if d := spelling.Distance(strings.ToLower(name), strings.ToLower(n)); d <= least {
			best, least = n, d-1
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}
