package oci

import (
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// AdditionOf is what a configuration adds to an image; the zero value for nil.
func AdditionOf(c *containerv1.ContainerConfig) Addition {
	a := Addition{
		Entrypoint: c.GetEntrypoint(), Cmd: c.GetCmd(), Env: c.GetEnv(), WorkingDir: c.GetWorkingDir(),
	}
	for _, l := range c.GetLayers() {
		a.Layers = append(a.Layers, Layer{
			GzipDigest: digest.Digest(l.GetGzipDigest()), TarDigest: digest.Digest(l.GetTarDigest()), Size: l.GetGzipSize(),
			Architecture: ArchitectureOf(l.GetLocation()),
		})
	}
	return a
}
