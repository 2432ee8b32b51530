package request

import (
	"fmt"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/oci"
)

// A NamedImage is an image that a request names, with its field.
type NamedImage struct {
	Field string
	oci.Reference
}

// Names returns the images that a request names: the existing image, the included ones, and those
// of the recipe, but not the default images of Conda packages, which the operator has chosen.
func (p Parsed) Names(recipe Recipe, usual conda.Defaults) ([]NamedImage, error) {
	var out []NamedImage
	if p.Raw.GetContainerImage() != "" {
		out = append(out, NamedImage{"containerImage", p.Image})
	}
	for i, image := range p.Includes {
		out = append(out, NamedImage{fmt.Sprintf("containerIncludes[%d]", i), image})
	}
	add := func(file Dockerfile, but ...string) {
		not := map[string]bool{}
		for _, name := range but {
			not[name] = true
		}
		for _, part := range file.Parts {
			for _, image := range part.Images {
				if !not[image.String()] {
					out = append(out, NamedImage{file.Field, image})
				}
			}
		}
	}
	if recipe.File != nil {
		add(*recipe.File)
	}
	if recipe.Packages != nil {
		usual, err := usual.Qualified()
		if err != nil {
			return nil, err
		}
		add(recipe.Packages.after, usual.Base, usual.Mamba)
		add(recipe.Packages.inSteps, usual.Base, usual.Mamba)
	}
	return out, nil
}
