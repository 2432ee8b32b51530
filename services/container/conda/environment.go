package conda

import (
	"slices"

	"slipway.dev/services/conda/envfile"
)

// readEnvironment reads an environment file, or the named environment of a pixi.toml for
// platforms, and appends the request's channels. If neither has channels, it sets the default
// channels. It returns fault.Invalid with the field for any other file.
func readEnvironment(field, text, name string, platforms, channels []string) (envfile.Environment, error) {
	var e envfile.Environment
	var err error
	if envfile.IsPixi(text) {
		e, err = envfile.ReadPixi(field, text, name, platforms)
	} else {
		e, err = envfile.Read(field, text)
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
