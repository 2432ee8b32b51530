package container_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/services/container"
)

// TestClientDefaultsBecomeLayers checks that a request with the images and templates that
// client libraries send by default is assembled from layers.
func TestClientDefaultsBecomeLayers(t *testing.T) {
	t.Parallel()
	conda := &solver{answer: solvedTo()}
	s := newSolvedSiteWith(t, conda, time.Minute, func(d *container.Deps) {
		d.CondaDefaults.ClientMamba = []string{"mambaorg/micromamba"}
	})
	plain := s.must(t, s.packages("samtools", "bwa"))
	for _, image := range []string{"mambaorg/micromamba:1.5.10-noble", "docker.io/mambaorg/micromamba:2-amazon2023"} {
		for _, template := range []string{"", "conda/micromamba:v2-fast", "conda/pixi:v1-fast", "conda/pixi:v1"} {
			r := s.packages("samtools", "bwa")
			r.Packages.CondaOpts.MambaImage, r.BuildTemplate = image, template
			if got := s.must(t, r); got.GetBuildId() != plain.GetBuildId() {
				t.Errorf("with %s and template %q it is %v", image, template, s.builds.last(t).GetRecipe())
			}
		}
	}
	r := s.packages("samtools", "bwa")
	r.Packages.CondaOpts.MambaImage = s.image
	s.must(t, r)
	b := s.builds.last(t)
	if b.GetRecipe().GetEngine() != "buildkit" || !strings.Contains(b.GetPreface(), "packages.condaOpts.mambaImage to "+s.image) {
		t.Errorf("with an image of the user's own: %v, log begins with %q", b.GetRecipe().GetEngine(), b.GetPreface())
	}
}
