package oci

import (
	"cmp"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// NewAugmentation returns the augmentation that a container configuration requests. It is
// zero for nil.
func NewAugmentation(c *containerv1.ContainerConfig) Augmentation {
	a := Augmentation{
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

// architectureOf returns the only architecture that a layer is for, or "" for all.
func architectureOf(l *containerv1.Layer) string {
	if from := l.GetIncludedFrom(); from != nil {
		return from.GetArchitecture()
	}
	return ArchitectureOf(l.GetLocation())
}

// includedFrom returns the name of the image that a layer is included from, or "" for a
// layer of the request.
func includedFrom(l *containerv1.Layer) string {
	from := l.GetIncludedFrom()
	if from == nil {
		return ""
	}
	return cmp.Or(from.GetPublicRegistry(), from.GetRegistry()) + "/" + from.GetRepository() + Suffix(from.GetReference())
}

// IsForArchitecture reports whether images of an architecture get a layer.
func IsForArchitecture(l *containerv1.Layer, architecture string) bool {
	only := architectureOf(l)
	return only == "" || only == architecture
}
