package buildkit

import (
	"maps"
	"strconv"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// What a recipe says of compression, as those take it who compress. They know the bounds
// of levels, too (gateway/contract/container-service.md#compression).

// compress adds to the attributes of an export of BuildKit's, of an image or a cache. A
// layer that the daemon has stays as it is compressed unless that is forced.
func compress(export map[string]string, c *containerv1.Compression) map[string]string {
	out := maps.Clone(export)
	if c == nil {
		return out
	}
	out["compression"] = c.GetMode()
	if c.Level != nil {
		out["compression-level"] = strconv.Itoa(int(c.GetLevel()))
	}
	if c.GetForce() {
		out["force-compression"] = "true"
	}
	return out
}
