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
			Architecture: architectureOf(l), MediaType: l.GetIncludedFrom().GetMediaType(), Image: includedFrom(l),
		})
	}
	return a
}

// architectureOf is the only architecture that gets a layer; "" is every one.
func architectureOf(l *containerv1.Layer) string {
	if from := l.GetIncludedFrom(); from != nil {
		return from.GetArchitecture()
	}
	return ArchitectureOf(l.GetLocation())
}

// includedFrom is the image that has a layer; "" for a layer of a request.
func includedFrom(l *containerv1.Layer) string {
	from := l.GetIncludedFrom()
	if from == nil {
		return ""
	}
	return from.GetRegistry() + "/" + from.GetRepository() + Suffix(from.GetReference())
}

// IsFor says whether an architecture gets a layer.
func IsFor(l *containerv1.Layer, architecture string) bool {
	only := architectureOf(l)
	return only == "" || only == architecture
}
