// Package engine names the engines that make images, and tells which workers can make
// what a recipe asks for. It makes nothing itself.
package engine

import (
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/oci"
)

// The engines of workers.
const (
	BuildKit = "buildkit"
	Freeze   = "freeze"
	Sif      = "sif"
	Conda    = "conda"
)

// Index makes an index over the images of other builds. It is a matter of one small
// document, so the build room does it itself, when the parts are there.
const Index = "index"

// Any is the architecture of engines that work on images as they lie in registries,
// whatever they are for.
const Any = "any"

// Kind is an engine for an architecture: what a worker has to be.
type Kind struct{ Engine, Architecture string }

// KindOf is what has to make a recipe; its architecture is "" for a malformed platform.
func KindOf(r *buildv1.Recipe) Kind { return Kind{r.GetEngine(), architecture(r)} }

func architecture(r *buildv1.Recipe) string {
	p, err := oci.ParsePlatform(r.GetPlatform())
	switch {
	case err != nil:
		return ""
	case r.GetEngine() == Sif || r.GetEngine() == Freeze || r.GetEngine() == Conda:
		return Any
	}
	return p.Architecture
}
