package conda

import (
	"slices"

	nouns "slipway.dev/services/internal/conda"
)

// readEnvironment reads an environment file, or the named environment of a pixi.toml for
// platforms, and appends the request's channels. If neither has channels, it sets the default
// channels. It returns fault.Invalid with the field for any other file.
func readEnvironment(field, text, name string, platforms, channels []string) (nouns.Environment, error) {
	var e nouns.Environment
	var err error
	if nouns.IsPixi(text) {
		e, err = nouns.ReadPixi(field, text, name, platforms)
	} else {
		e, err = nouns.ReadEnvironment(field, text)
	}
	if err != nil {
		return e, err
	}
	return e.WithChannels(mergeChannels(e.Channels, channels))
}

// mergeChannels appends the request's channels to those of the file.
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
