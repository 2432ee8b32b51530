package lockfile

import (
	"maps"
	"slices"
	"strings"
)

// Provenance returns the comments of a lock that was solved as of a time, or without packages
// newer than a time. asOf and excludeNewer are these times in RFC 3339, "" for none; snapshots
// has the digests of the package lists by "<channel>/<subdir>". It returns nil if neither time
// is set.
func Provenance(asOf, excludeNewer string, snapshots map[string]string) []string {
	if asOf == "" && excludeNewer == "" {
		return nil
	}
	var out []string
	if asOf != "" {
		out = append(out, "slipway.asOf: "+asOf)
	}
	if excludeNewer != "" {
		out = append(out, "slipway.excludeNewer: "+excludeNewer)
	}
	for _, list := range slices.Sorted(maps.Keys(snapshots)) {
		out = append(out, "slipway.snapshot "+list+": "+snapshots[list])
	}
	return out
}

// comments returns the comments of a lock as lines of any of its formats.
func (l Lock) comments() string {
	var out strings.Builder
	for i, line := range l.Comments {
		if !slices.Contains(l.Comments[:i], line) {
			out.WriteString("# " + strings.Join(strings.Fields(line), " ") + "\n")
		}
	}
	return out.String()
}
