package buildkit

import (
	"maps"
	"strconv"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// compress adds compression attributes to a BuildKit export of an image or a cache
// (gateway/contract/container-service.md#compression). BuildKit validates the level, too. A
// layer that the daemon already has keeps its compression unless that is forced.
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
