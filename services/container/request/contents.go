package request

import (
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
)

// withoutContents is the configuration without the contents: what is kept with a request.
// nil when there is nothing in it.
func withoutContents(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if c == nil || oci.AdditionOf(c).IsZero() {
		return nil
	}
	out := &containerv1.ContainerConfig{
		Entrypoint: c.GetEntrypoint(), Cmd: c.GetCmd(), Env: c.GetEnv(), WorkingDir: c.GetWorkingDir(),
	}
	for _, l := range c.GetLayers() {
		out.Layers = append(out.Layers, layerWithoutContent(l))
	}
	return out
}

func layerWithoutContent(l *containerv1.Layer) *containerv1.Layer {
	location := l.GetLocation()
	if strings.HasPrefix(location, DataPrefix) {
		location = DataPrefix
	}
	return &containerv1.Layer{
		Location: location, GzipDigest: l.GetGzipDigest(), GzipSize: l.GzipSize, TarDigest: l.GetTarDigest(),
	}
}
