package conda

import (
	"slices"

	nouns "slipway.dev/services/internal/conda"
)

// readEnvironment reads an environment file and adds the channels that it lacks.
// Without any it gets the defaults. fault.Invalid, naming the field, for anything
// else.
func readEnvironment(field, text string, channels []string) (nouns.Environment, error) {
	e, err := nouns.ReadEnvironment(field, text)
	if err != nil {
		return e, err
	}
	return e.WithChannels(mergeChannels(e.Channels, channels))
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
