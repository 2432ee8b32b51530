package conda

import (
	"regexp"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
)

// ofIndex matches pip requirements without an address or an option, which pip installs from PyPI: a name,
// extras, versions and a marker.
var ofIndex = regexp.MustCompile(`^\s*[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[A-Za-z0-9._, -]*\])?\s*([(<>=!~][^@/\\;]*)?(;[^@/\\]*)?$`)

// ChannelNames returns the channels that the packages are installed from, as the request names them,
// without those of a lock. pypi and cran are the indexes of pip and of the R packages that are built
// from source. A pip requirement with an address, and an option of pip, is a channel of its own.
func (r Recipe) ChannelNames() []string {
	if r.IsLocked() {
		return nil
	}
	specs, pip := r.Environment.Specs()
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if len(specs)+len(r.basePackages) > 0 {
		for _, c := range r.Environment.Channels {
			add(c)
		}
	}
	for _, text := range slices.Concat(specs, r.basePackages) {
		if m, err := spec.ParseMatchSpec(text); err == nil && m.Channel != "" {
			add(m.Channel)
		}
	}
	for _, text := range pip {
		if ofIndex.MatchString(text) {
			add("pypi")
		} else {
			add(strings.TrimSpace(text))
		}
	}
	if len(r.fallback.source) > 0 {
		add("cran")
	}
	return out
}
