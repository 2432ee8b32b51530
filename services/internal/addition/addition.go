// Package addition reads from a containerConfig what it adds to an image.
package addition

import (
	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
)

// Of is the configuration as augmentation wants it; the zero value for nil.
func Of(c *containerv1.ContainerConfig) oci.Addition {
	a := oci.Addition{
		Entrypoint: c.GetEntrypoint(), Cmd: c.GetCmd(), Env: c.GetEnv(), WorkingDir: c.GetWorkingDir(),
	}
	for _, l := range c.GetLayers() {
		a.Layers = append(a.Layers, oci.Layer{
			GzipDigest: digest.Digest(l.GetGzipDigest()), TarDigest: digest.Digest(l.GetTarDigest()), Size: l.GetGzipSize(),
			Architecture: oci.ArchitectureOf(l.GetLocation()),
		})
	}
	return a
}
