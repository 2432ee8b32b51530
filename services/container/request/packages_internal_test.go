package request

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// TestRecipesThatAreRefused checks that errors name the field of a Dockerfile. Other rules
// are tested where Dockerfiles and environments are parsed.
func TestRecipesThatAreRefused(t *testing.T) {
	t.Parallel()
	commands := &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}, CondaOpts: &containerv1.CondaOptions{Commands: []string{"RUM x"}}}
	for want, r := range map[string]*containerv1.ContainerRequest{
		"containerFile: line 1: RUN must come after FROM":          {ContainerFile: base64.StdEncoding.EncodeToString([]byte("RUN x"))},
		"packages.condaOpts.commands[0]: unknown instruction: RUM": {Packages: commands},
		"condaFile must be a Conda environment file: ":             {CondaFile: base64.StdEncoding.EncodeToString([]byte("x"))},
		"packages.environment must be a Conda environment file: ":  {Packages: &containerv1.Packages{Type: "CONDA", Environment: base64.StdEncoding.EncodeToString([]byte("x"))}},
	} {
		if _, err := readRecipe(Parsed{Raw: r, Platforms: []ocispec.Platform{oci.DefaultPlatform}}); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
