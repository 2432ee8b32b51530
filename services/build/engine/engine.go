// Package engine names the engines that build images, and determines which workers can
// build a recipe.
package engine

import (
	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/oci"
)

// Engines of workers.
const (
	BuildKit = "buildkit"
	Freeze   = "freeze"
	Mirror   = "mirror"
	Sif      = "sif"
	Conda    = "conda"
)

// Index builds an index of the images of other builds. The index is one small document, so
// the build service creates it itself when the images exist.
const Index = "index"

// Any is the architecture of engines that execute nothing from the image.
const Any = "any"

// A Kind is an engine for an architecture: the requirements for a worker.
type Kind struct{ Engine, Architecture string }

// KindOf returns the requirements of a recipe. Its architecture is "" for a malformed
// platform.
func KindOf(r *buildv1.Recipe) Kind { return Kind{r.GetEngine(), architecture(r)} }

func architecture(r *buildv1.Recipe) string {
	if r.GetEngine() == Mirror {
		return Any
	}
	p, err := oci.ParsePlatform(r.GetPlatform())
	switch {
	case err != nil:
		return ""
	case r.GetEngine() == Sif || r.GetEngine() == Freeze || r.GetEngine() == Conda:
		return Any
	}
	return p.Architecture
}
